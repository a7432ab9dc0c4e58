/* agent/os/local_addr.h: finds the address where other machines reach this machine's trainers.
 * It must be IPv4, because TensorFlow listens on IPv4 only (docs/tensorflow.md). */
#ifndef TFE_AGENT_OS_LOCAL_ADDR_H
#define TFE_AGENT_OS_LOCAL_ADDR_H

#include <stdbool.h>
#include <sys/socket.h>

#include "common/base/id.h"

struct ifaddrs;

/* Chooses the address for the local end of a connection and stores it as text: the end itself
 * if it is IPv4, 127.0.0.1 for ::1, otherwise an IPv4 address of the same interface, or of
 * another interface that is up and routable. all is the list of getifaddrs(3). Returns false if
 * there is no such address. */
bool local_addr_pick(const struct ifaddrs *all, const struct sockaddr_storage *end,
                     char ret[TFE_HOST_MAX + 1]);

/* Chooses the address as local_addr_pick does, among this machine's current interfaces. */
bool local_addr_find(const struct sockaddr_storage *end, char ret[TFE_HOST_MAX + 1]);

#endif
