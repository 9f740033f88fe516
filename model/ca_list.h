/*
 * Lists of the CAs that a node has. A list names CAs by the first 8 hex digits of their SHA-256,
 * separated by commas, the signing CA first. With each certificate a node gets all CAs then in use,
 * and the list is recorded with it (hub/identity/ledger.h). Nodes announce their list when they
 * connect. "": unknown, from an older hub or agent. From these lists follows which nodes another
 * set of CAs would cut off: a node that does not trust the CA that will sign the hub's certificate,
 * or whose own certificate is of a CA that will be gone. Leaf.
 *
 *	ca_list(now, certs_ca_pem(c));
 *	if (!ca_list_keeps(list_of_node, now, next)) ...cut off...
 */
#ifndef EDGEWAY_MODEL_CA_LIST_H
#define EDGEWAY_MODEL_CA_LIST_H

#include "base/core/util.h"

enum { CA_LIST_MAX = 8, CA_LIST_TEXT = CA_LIST_MAX * 9 };

/* The header in which a node announces its list. */
#define CA_LIST_HEADER "edgeway-ca"

/* The list of the CAs in a bundle (PEM), at most the first CA_LIST_MAX. */
void ca_list(char to[CA_LIST_TEXT], const char *bundle_pem);
/* The same, with the CA that signed the certificate first; "" when none did. */
void ca_list_of(char to[CA_LIST_TEXT], const char *bundle_pem, const char *cert_pem);
bool ca_list_ok(const char *text);
/* Do both begin with the same CA? */
bool ca_list_same_first(const char *a, const char *b);
/* Does the node have the CAs in use, and a certificate signed by the first? */
bool ca_list_is_current(const char *node, const char *now);
/* Can node and hub still verify each other when the hub changes from the CAs `now` to `next`? */
bool ca_list_keeps(const char *node, const char *now, const char *next);

#endif
