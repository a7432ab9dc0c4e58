"""EC2's metadata service, version 2, as far as an interruption notice goes: token, instance-action, rebalance."""
import datetime
import http.server
import json
import threading


class Ec2:
    """Quiet until interrupt(). url: the base."""

    def __init__(self):
        self._action = None
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _say(self, status, text=""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def do_PUT(self):
                wanted = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
                self._say(200, "token-1") if self.path == "/latest/api/token" and wanted else self._say(400)

            def do_GET(self):
                if self.headers.get("X-aws-ec2-metadata-token") != "token-1":
                    self._say(401)
                elif self.path == "/latest/meta-data/spot/instance-action" and service._action:
                    self._say(200, service._action)
                else:
                    self._say(404)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def interrupt(self):
        """The machine goes in two minutes."""
        when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=2)
        self._action = json.dumps({"action": "terminate", "time": when.strftime("%Y-%m-%dT%H:%M:%SZ")})

    def close(self):
        self._server.shutdown()
        self._server.server_close()
