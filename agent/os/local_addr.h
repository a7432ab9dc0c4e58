/* agent/os/local_addr.h: where other machines reach this one's trainers: an IPv4 address, for
 * TensorFlow listens on no other (docs/tensorflow.md). */
#ifndef TFE_AGENT_OS_LOCAL_ADDR_H
#define TFE_AGENT_OS_LOCAL_ADDR_H

#include <stdbool.h>
#include <sys/socket.h>

#include "common/base/id.h"

struct ifaddrs;

/* As text, of this end of a connection: itself; where that is IPv6, an IPv4 address of the same
 * interface, else of another that is up and leads out; for ::1 127.0.0.1. all: getifaddrs(3).
 * False: this machine has none. */
bool own_address_pick(const struct ifaddrs *all, const struct sockaddr_storage *end,
                      char ret[TFE_HOST_MAX + 1]);

/* … among the addresses that this machine has now. */
bool own_address_find(const struct sockaddr_storage *end, char ret[TFE_HOST_MAX + 1]);

#endif
