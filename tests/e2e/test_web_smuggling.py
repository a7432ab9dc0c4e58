"""Requests that a proxy in front of tfe-web could interpret differently (request smuggling): each gets 400 and the end
of its connection, and the bytes behind it are never treated as a request."""

import contextlib
import socket

import pytest

from conftest import DEADLINE
from web import start

HEAD = b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"token":"x"}'
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def field(line):
    return HEAD + line + b"\r\nContent-Length: 13\r\n\r\n" + BODY


def lengths(*lines):
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + BODY


def line(text):
    return text + b"\r\nHost: localhost\r\n\r\n"


BAD = {
    # two lengths, or one that is not a number
    "two lengths that differ": lengths(b"Content-Length: 13", b"Content-Length: 14"),
    "two equal lengths": lengths(b"Content-Length: 13", b"Content-Length: 13"),
    "two lengths in different case": lengths(b"content-length: 0", b"CONTENT-LENGTH: 13"),
    "a list of lengths": lengths(b"Content-Length: 13, 13"),
    "a signed length": lengths(b"Content-Length: +13"),
    "a negative length": lengths(b"Content-Length: -1"),
    "a hexadecimal length": lengths(b"Content-Length: 0xd"),
    "a length with a blank in it": lengths(b"Content-Length: 1 3"),
    "a length with a point": lengths(b"Content-Length: 13.0"),
    "a length in quotes": lengths(b'Content-Length: "13"'),
    "an empty length": lengths(b"Content-Length:"),
    "a length beyond 64 bits": lengths(b"Content-Length: 18446744073709551629"),
    "a length that ends with NUL": lengths(b"Content-Length: 13\0"),
    "a length with a vertical tab": lengths(b"Content-Length: \x0b13"),
    # length and coding
    "length and coding": lengths(b"Content-Length: 13", b"Transfer-Encoding: chunked"),
    "coding and length": lengths(b"Transfer-Encoding: chunked", b"Content-Length: 0"),
    "two codings": lengths(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    "a list of codings": lengths(b"Transfer-Encoding: chunked, identity"),
    "chunked is not the last": lengths(b"Transfer-Encoding: chunked, gzip"),
    "an unknown coding": lengths(b"Transfer-Encoding: xchunked"),
    "identity": lengths(b"Transfer-Encoding: identity"),
    "an empty coding": lengths(b"Transfer-Encoding: "),
    "a coding in quotes": lengths(b'Transfer-Encoding: "chunked"'),
    "a coding with a control character": lengths(b"Transfer-Encoding: \x0bchunked"),
    "a coding in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n",
    "a blank before the coding's colon": lengths(b"Transfer-Encoding : chunked"),
    # fields
    "a blank before a colon": field(b"X-A : b"),
    "a tab before a colon": field(b"X-A\t: b"),
    "a field without a name": field(b": b"),
    "a field without a colon": field(b"X-A"),
    "a name with a blank": field(b"X A: b"),
    "a name with a parenthesis": field(b"X(A): b"),
    "a name beyond ASCII": field("X-Ä: b".encode()),
    "NUL in a value": field(b"X-A: b\0c"),
    "NUL in a name": field(b"X-\0A: b"),
    "a control character in a value": field(b"X-A: b\x01c"),
    "DEL in a value": field(b"X-A: b\x7fc"),
    "a bare CR in a value": field(b"X-A: b\rContent-Length: 0"),
    "a bare LF between fields": field(b"X-A: b\nX-B: c"),
    "CR CR LF": field(b"X-A: b\r"),
    "a folded line": field(b"X-A: b\r\n c"),
    "a line folded by a tab": field(b"X-A: b\r\n\tc"),
    "a folded length": lengths(b"Content-Length:\r\n 13"),
    "a first field that is folded": HEAD.replace(b"Host", b" Host") + b"\r\n",
    "an end of bare LFs": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    "two hosts": field(b"Host: elsewhere"),
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two tokens": field(b"Authorization: Bearer a\r\nAuthorization: Bearer b"),
    # request lines
    "an empty line first": b"\r\n" + NEXT,
    "a bare LF first": b"\n" + NEXT,
    "two blanks before the target": line(b"GET  /healthz HTTP/1.1"),
    "two blanks before the version": line(b"GET /healthz  HTTP/1.1"),
    "a tab between words": line(b"GET\t/healthz HTTP/1.1"),
    "a blank behind the version": line(b"GET /healthz HTTP/1.1 "),
    "a blank before the method": line(b" GET /healthz HTTP/1.1"),
    "a blank in the target": line(b"GET /health z HTTP/1.1"),
    "no version": line(b"GET /healthz"),
    "another version": line(b"GET /healthz HTTP/1.9"),
    "a later version": line(b"GET /healthz HTTP/2.0"),
    "a version in lower case": line(b"GET /healthz http/1.1"),
    "a method that is no token": line(b"G@T /healthz HTTP/1.1"),
    "a target of another host": line(b"GET http://elsewhere/healthz HTTP/1.1"),
    "a target without a slash": line(b"GET healthz HTTP/1.1"),
    "a target with a fragment": line(b"GET /healthz#a HTTP/1.1"),
    "NUL in the target": line(b"GET /healthz\0 HTTP/1.1"),
    "a target beyond ASCII": line("GET /ä HTTP/1.1".encode()),
    # chunks
    "a chunk without a size": CHUNKED + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size that is no number": CHUNKED + b"xd\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size with 0x": CHUNKED + b"0xd\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a signed size": CHUNKED + b"+d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a negative size": CHUNKED + b"-1\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size with a blank": CHUNKED + b"d \r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size beyond 64 bits": CHUNKED + b"1000000000000000d\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a size that ends with a bare LF": CHUNKED + b"d\n" + BODY + b"\r\n0\r\n\r\n",
    "a size with an extension": CHUNKED + b"d;a=b\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKED + b"c\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk that ends with a bare LF": CHUNKED + b"d\r\n" + BODY + b"\n0\r\n\r\n",
    "a last chunk that ends with a bare LF": CHUNKED + b"d\r\n" + BODY + b"\r\n0\n\n",
    "a trailer": CHUNKED + b"d\r\n" + BODY + b"\r\n0\r\nContent-Length: 5\r\n\r\n",
}
assert len(BAD) >= 47


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """A tfe-web without a server, which none of these requests reaches."""
    folder = tmp_path_factory.mktemp("web")
    (folder / "state").mkdir(mode=0o700)
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with start(folder / "state", folder, f"--token-file={token}", "--rdzv-endpoint=127.0.0.1:9") as web:
        yield web.port


# A token of a server that does not exist.
TOKEN = ("tfe1_admin_AQADAAAAAADuGThLMvL92a5Kr7PH2GFrc58Fow0GtOIjb96nEhaBWfNG6KPv1X2eow2fS40wnOXPfO22kR6Ki-ImVqCxn5z95e3Mvf"
         "CPBG-WeHMc\n")


def exchange(port, *pieces):
    """Returns everything received until the other side ends the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as one:
        got = b""
        with contextlib.suppress(ConnectionError):  # the last piece may come too late
            for piece in pieces:
                one.sendall(piece)
        while more := one.recv(65536):
            got += more
        return got


@pytest.mark.parametrize("name", BAD)
def test_smuggled_request_is_refused_and_ends_its_connection(port, name):
    got = exchange(port, BAD[name] + NEXT)
    head = got.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert head[0] == b"HTTP/1.1 400 Bad Request", got
    assert b"Connection: close" in head and b"X-Content-Type-Options: nosniff" in head
    assert b"Content-Type: application/problem+json" in head
    assert got.count(b"\r\nDate: ") == 1, "what is behind it was taken for a request"


def test_well_formed_requests_of_one_connection_are_answered_in_order(port):
    chunked = CHUNKED + b"1\r\n{\r\n00C\r\n" + BODY[1:] + b"\r\n0\r\n\r\n"
    odd_but_right = b"GET /healthz?a=b%20c HTTP/1.1\r\nhOST:localhost\r\nX-A: \t b c\xe4\t \r\nX-Empty:\r\nX-A: twice\r\n\r\n"
    last = NEXT.replace(b"Host", b"Connection: x, Close\r\nHost")
    said = NEXT + lengths(b"Content-Length: 13") + chunked + odd_but_right + last + NEXT
    for pieces in ([said], [said[i:i + 1] for i in range(len(said))]):
        got = exchange(port, *pieces)
        assert [at.split()[0] for at in got.split(b"HTTP/1.1 ")[1:]] == [b"200", b"401", b"401", b"200", b"200"], got
