/* common/channel/endpoint.h: network endpoints as text ("HOST:PORT") and as socket addresses. */
#ifndef TFE_COMMON_CHANNEL_ENDPOINT_H
#define TFE_COMMON_CHANNEL_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/base/id.h"

/* Size of an endpoint as text, including the NUL. */
#define ENDPOINT_TEXT_MAX (TFE_HOST_MAX + sizeof "[]:65535")

/* Writes "HOST:PORT", with brackets around an IPv6 address, and returns ret. Truncates hosts longer
 * than TFE_HOST_MAX. */
const char *endpoint_format(char ret[ENDPOINT_TEXT_MAX], const char *host, uint16_t port);

/* Parses "HOST:PORT", "[v6]:PORT", "HOST", "[v6]" or "v6"; without a port *port is unchanged. An
 * unbracketed IPv6 address that ends as if it had a port ("::1:5599") is rejected. Writes the host,
 * at most TFE_HOST_MAX bytes and a NUL. Returns TFE_EINVAL (also for port 0) without a change. */
int endpoint_parse(const char *text, char *ret_host, size_t host_cap,
                   uint16_t *port) TFE_MUST_CHECK;

/* Writes a socket address as numeric host and port (each may be NULL); an IPv4-mapped IPv6 address
 * becomes IPv4. Returns TFE_EINVAL for other address families, with host "" and port 0. */
int endpoint_of(const struct sockaddr *address, char ret_host[TFE_HOST_MAX + 1],
                uint16_t *ret_port);

/* Converts a numeric host and a port to a socket address. Returns TFE_EINVAL if host is not
 * numeric. */
int endpoint_address(const char *host, uint16_t port, struct sockaddr_storage *ret,
                     socklen_t *ret_n) TFE_MUST_CHECK;

#endif
