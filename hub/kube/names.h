/*
 * The set of names that the hub's certificate is for: DNS names and addresses, sorted, each once,
 * bounded. Kept beside the certificate (hub.names, with the hash of the CA) since that tells at the
 * next start whether the certificate still fits. Plain data of hub/identity/certs.
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

/* What does not fit any more is left out: the most important first. */
void names_add(struct names *names, const char *name);
/* The addresses of this host, but for loopback and link-local ones. */
void names_add_interfaces(struct names *names);
void names_fini(struct names *names);
/* Are all of the others in it? */
bool names_hold(const struct names *names, const struct names *others);
/* Adds nothing when the file is not there or was for another CA. */
void names_read(const char *path, const char *ca_hash, struct names *names);
int names_write(const char *path, const char *ca_hash, const struct names *names, struct err *err);

#endif
