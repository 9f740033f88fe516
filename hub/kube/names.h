/*
 * The set of names for the hub's certificate: DNS names and addresses, sorted, without duplicates,
 * bounded. Stored next to the certificate (hub.names, with the hash of the CA): at the next start
 * it shows whether the certificate still fits. Plain data of hub/identity/certs.
 *
 *	struct names names = {0};
 *	names_add(&names, "hub.example");
 *	names_add_interfaces(&names);
 *	names_fini(&names);
 */
#ifndef EDGEWAY_HUB_KUBE_NAMES_H
#define EDGEWAY_HUB_KUBE_NAMES_H

#include "base/core/err.h"

enum { NAMES_MAX = 128 };

struct names {
	char *name[NAMES_MAX + 1]; /* sorted, ended by NULL */
	size_t n;
};

/* Ignores the name if the set is full: add the most important names first. */
void names_add(struct names *names, const char *name);
/* The addresses of this host, except loopback and link-local ones. */
void names_add_interfaces(struct names *names);
void names_fini(struct names *names);
/* Returns true if `names` contains all of `others`. */
bool names_hold(const struct names *names, const struct names *others);
/* Adds nothing if the file does not exist or is for another CA. */
void names_read(const char *path, const char *ca_hash, struct names *names);
int names_write(const char *path, const char *ca_hash, const struct names *names, struct err *err);

#endif
