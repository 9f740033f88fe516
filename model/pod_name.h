/*
 * A pod by its own address: <address, dashed>.<namespace>.pod.<cluster domain>. Where a view, a
 * message or a stream names services, such a pod is the "service" <address, dashed>._pod of its
 * namespace, which no Service and no hostname of one can be called. Pure.
 *
 *	pod_name_of(name, "172.17.0.5");		"172-17-0-5._pod"
 *	pod_name_ip("172-17-0-5", 10, ip);		"172.17.0.5"
 */
#ifndef EDGEWAY_MODEL_POD_NAME_H
#define EDGEWAY_MODEL_POD_NAME_H

#include <netinet/in.h>
#include <string.h>

#include "base/core/util.h"

#define POD_NAME_SUFFIX "._pod"
enum { POD_NAME_MAX = INET6_ADDRSTRLEN + sizeof POD_NAME_SUFFIX };

/* The name of the pod with this address, in its canonical spelling; false: it is no address. */
bool pod_name_of(char to[POD_NAME_MAX], const char *ip);
/* The address in a dashed label, canonical; false: there is none. */
bool pod_name_ip(const char *label, size_t len, char to[INET6_ADDRSTRLEN]);
/* Is it the name of a pod by its address, as pod_name_of writes it? */
bool pod_name_is(const char *name, size_t len);
/* The address in such a name, as IPv4 or IPv6 text. */
static inline bool
pod_name_address(const char *name, char to[INET6_ADDRSTRLEN])
{
	size_t len = strlen(name);

	return pod_name_is(name, len) && pod_name_ip(name, len - (sizeof POD_NAME_SUFFIX - 1), to);
}

#endif
