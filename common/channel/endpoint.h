/* common/channel/endpoint.h: where something is reached, as text: "HOST:PORT". */
#ifndef TFE_COMMON_CHANNEL_ENDPOINT_H
#define TFE_COMMON_CHANNEL_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/base/id.h"

/* With the NUL. */
#define ENDPOINT_TEXT_MAX (TFE_HOST_MAX + sizeof "[]:65535")

/* Writes "HOST:PORT", with brackets around a v6 address, and returns ret. What is longer than the
 * longest host is cut. */
const char *endpoint_format(char ret[ENDPOINT_TEXT_MAX], const char *host, uint16_t port);

/* "HOST:PORT", "[v6]:PORT"; "HOST", "[v6]", "v6" (port stays as it is; not
 * one that ends as if it named a port: "::1:5599" is refused). Writes host, at most
 * TFE_HOST_MAX + NUL. TFE_EINVAL (port 0, too): nothing changed. */
int endpoint_parse(const char *text, char *ret_host, size_t host_cap,
                   uint16_t *port) TFE_MUST_CHECK;

/* A socket's address as a numeric host and a port (each may be NULL); a v4 address that is mapped
 * into v6 is v4. TFE_EINVAL: of neither family; the host is "", the port 0. */
int endpoint_of(const struct sockaddr *address, char ret_host[TFE_HOST_MAX + 1],
                uint16_t *ret_port);

/* The reverse. TFE_EINVAL: host is not numeric. */
int endpoint_address(const char *host, uint16_t port, struct sockaddr_storage *ret,
                     socklen_t *ret_n) TFE_MUST_CHECK;

#endif
