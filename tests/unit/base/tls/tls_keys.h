/* A CA, a hub's certificate (hub.example) and a node's (edge-1), as PEM. */
#ifndef EDGEWAY_TESTS_UNIT_BASE_TLS_TLS_KEYS_H
#define EDGEWAY_TESTS_UNIT_BASE_TLS_TLS_KEYS_H

struct tls_keys {
	char *ca, *ca_key, *hub, *hub_key, *node, *node_key;
};

void tls_keys_make(struct tls_keys *k);
void tls_keys_free(struct tls_keys *k);

#endif
