/*
 * The agent's side of doc/protocol.md, "Metadata", as pure functions: bytes in, structs out and the
 * other way round.
 */
#ifndef EDGEWAY_META_CLIENT_MESSAGE_H
#define EDGEWAY_META_CLIENT_MESSAGE_H

#include "model/envelope.h"
#include "model/mesh.h"

/* "<ns>/service/<name>"; a name of pods is <hostname>.<service> */
struct message_service {
	char ns[MESH_NAME_MAX + 1];
	char name[MESH_SERVICE_MAX + 1];
};
int message_service(struct message_service *to, const char *resource, struct err *err);
/* "<ns>/health/<name>", of a question */
int message_health(struct message_service *to, const char *resource, struct err *err);

enum { MESSAGE_ADDRESSES_MAX = 4, MESSAGE_ADDRESS_TEXT = 46 };

struct message_hello {
	int64_t protocol; /* MESH_PROTOCOL, or what this agent does not speak; 0: it does not say */
	char addresses[MESSAGE_ADDRESSES_MAX]
		      [MESSAGE_ADDRESS_TEXT]; /* where else the hub is; not checked yet */
	size_t n_addresses;
	char site[MESH_NODE_MAX + 1], zone[MESH_NODE_MAX + 1], cluster_domain[MESH_NODE_MAX + 1];
	char hub[64];
	bool bundles; /* it takes them */
	char ca[65]; /* sha256 of its CAs as PEM text, hex; "" not said */
};
int message_hello(struct message_hello *to, const char *json, size_t len, struct err *err);
/* The list of revoked certificates in hello or `node/crl` (PEM, heap); NULL: there is none. */
char *message_crl(const char *json, size_t len);
/* Does the content say {"synced":true}? */
bool message_says_synced(const char *json, size_t len);

struct message {
	enum operation operation;
	const char *resource;
	const char *parent; /* "" none */
	const char *content; /* JSON; NULL none */
};
/* Appends a frame; its own fresh id goes to id (may be NULL). */
void message_build(struct buf *out, const struct message *m, char id[37]);

/* wss://host[:port][/...]; host without brackets. */
struct message_url {
	char host[MESH_NODE_MAX + 1];
	uint16_t port;
};
int message_url(struct message_url *to, const char *url, struct err *err);
/* Is the host name inside the cluster domain? Without case, final dots ignored. */
bool message_inside(const char *host, const char *domain);

#endif
