/*
 * The agent's side of doc/protocol.md, "Metadata", as pure functions: parses messages into structs,
 * and builds messages.
 */
#ifndef EDGEWAY_META_CLIENT_MESSAGE_H
#define EDGEWAY_META_CLIENT_MESSAGE_H

#include "model/envelope.h"
#include "model/mesh.h"

/* "<ns>/service/<name>"; a pod's name is <hostname>.<service> */
struct message_service {
	char ns[MESH_NAME_MAX + 1];
	char name[MESH_SERVICE_MAX + 1];
};
int message_service(struct message_service *to, const char *resource, struct err *err);
/* "<ns>/health/<name>", of a question */
int message_health(struct message_service *to, const char *resource, struct err *err);

enum { MESSAGE_ADDRESSES_MAX = 4, MESSAGE_ADDRESS_TEXT = 46, MESSAGE_REVOKED_MAX = 65536 };

struct message_hello {
	int64_t protocol; /* MESH_PROTOCOL, or one that this agent does not speak; 0: not given */
	/* further addresses of the hub; not checked yet */
	char addresses[MESSAGE_ADDRESSES_MAX][MESSAGE_ADDRESS_TEXT];
	size_t n_addresses;
	char site[MESH_NODE_MAX + 1], zone[MESH_NODE_MAX + 1], cluster_domain[MESH_NODE_MAX + 1];
	char hub[64];
	bool bundles; /* the hub accepts bundles */
	bool pods; /* it answers questions for pods by their address */
	bool rendezvous; /* it introduces nodes to each other (doc/protocol.md, "Across NAT") */
	char ca[65]; /* sha256 of its CAs as PEM text, hex; "" not given */
};
int message_hello(struct message_hello *to, const char *json, size_t len, struct err *err);
/* The list of revoked certificates in hello or `node/crl` (PEM, heap); NULL: there is none. */
char *message_crl(const char *json, size_t len);
/* The nodes whose certificates were revoked, in hello or `node/crl`: for each a line feed, its
 * name, a blank, the serial numbers that are valid nevertheless, separated by commas; a line feed
 * at the end. "": there is none. A node "*": the hub's access has rules for nodes, so none asks
 * another one itself. Heap; NULL: the hub does not say. */
char *message_revoked(const char *json, size_t len);
/* Whether the content is {"synced":true}. */
bool message_says_synced(const char *json, size_t len);

struct message {
	enum operation operation;
	const char *resource;
	const char *parent; /* "" none */
	const char *content; /* JSON; NULL none */
};
/* Appends a frame; its own new id is copied to id (may be NULL). */
void message_build(struct buf *out, const struct message *m, char id[37]);

/* wss://host[:port][/...]; host without brackets. */
struct message_url {
	char host[MESH_NODE_MAX + 1];
	uint16_t port;
};
int message_url(struct message_url *to, const char *url, struct err *err);
/* Whether the host name is inside the cluster domain; ignores case and final dots. */
bool message_inside(const char *host, const char *domain);

#endif
