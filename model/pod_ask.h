/*
 * A question about a pod by its address (model/pod_name.h), from a loop that carries traffic to
 * loop 0, and its answer. The asker allocates it, in a structure of its own, and hands it over to
 * the owner's function (dns_config, lb_config); `done` comes once, on `loop`, and frees it.
 */
#ifndef EDGEWAY_MODEL_POD_ASK_H
#define EDGEWAY_MODEL_POD_ASK_H

#include <netinet/in.h>

#include "model/limits.h"

struct loop;

enum pod_answer {
	POD_UNKNOWN, /* it cannot be told now */
	POD_NONE,
	POD_MANY, /* several pods have the address */
	POD_KNOWN, /* the snapshot has it, or `found` its name */
};

enum { POD_FOUND_MAX = 2 * MESH_NAME_MAX + INET6_ADDRSTRLEN + 8 };

struct pod_ask {
	char ns[MESH_NAME_MAX + 1]; /* "": of any namespace; an answer POD_KNOWN says which */
	char address[INET6_ADDRSTRLEN]; /* canonical */
	bool name; /* its name is wanted, not the pod itself */
	uint16_t port; /* that it is to be called at; 0: none */
	uint32_t client; /* a hash of who wants to know */
	enum pod_answer answer;
	char found[POD_FOUND_MAX]; /* its name under the cluster's domain */
	void *owner; /* the function's own, on the way to loop 0 */
	struct loop *loop;
	void (*done)(void *ask); /* with this very structure */
};

typedef void pod_ask_fn(void *arg, struct pod_ask *ask);

#endif
