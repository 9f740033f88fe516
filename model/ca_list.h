/*
 * Which nodes have which CAs. A list names CAs by the first 8 hex digits of their SHA-256, parted
 * by commas, the one that signs first; with each certificate a node gets all CAs that are in use
 * then, and the list is recorded with it (hub/identity/ledger.h). Nodes say theirs when they come.
 * "": of a hub or an agent of before, nobody knows. From these lists follows whom another set of
 * CAs would cut off: who does not trust the CA that signs the hub's certificate from then on, or
 * whose own certificate is of a CA that is not there any more. Leaf.
 *
 *	ca_list(now, certs_ca_pem(c));
 *	if (!ca_list_keeps(list_of_node, now, next)) ...cut off...
 */
#ifndef EDGEWAY_MODEL_CA_LIST_H
#define EDGEWAY_MODEL_CA_LIST_H

#include "base/core/util.h"

enum { CA_LIST_MAX = 8, CA_LIST_TEXT = CA_LIST_MAX * 9 };

/* In which header a node says its list. */
#define CA_LIST_HEADER "edgeway-ca"

/* Of the CAs in a bundle (PEM), the first CA_LIST_MAX. */
void ca_list(char to[CA_LIST_TEXT], const char *bundle_pem);
/* The same, the one that signed the certificate first; "" when none did. */
void ca_list_of(char to[CA_LIST_TEXT], const char *bundle_pem, const char *cert_pem);
bool ca_list_ok(const char *text);
/* Do both begin with the same CA? */
bool ca_list_same_first(const char *a, const char *b);
/* Does the node have the CAs in use, and a certificate of the first? */
bool ca_list_is_current(const char *node, const char *now);
/* Do node and hub still verify each other when the hub goes from the CAs `now` to `next`? */
bool ca_list_keeps(const char *node, const char *now, const char *next);

#endif
