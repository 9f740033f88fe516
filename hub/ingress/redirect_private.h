/*
 * Shared by the files of the redirect: redirect.c (settings, accepted connections),
 * redirect_rules.c (kernel rules, kept in step with the cluster), redirect_tell.c (state, metrics).
 * No other file includes it.
 */
#ifndef EDGEWAY_HUB_INGRESS_REDIRECT_PRIVATE_H
#define EDGEWAY_HUB_INGRESS_REDIRECT_PRIVATE_H

#include "base/os/netwatch.h"
#include "hub/ingress/redirect.h"
#include "hub/ingress/redirect_probe.h"
#include "hub/ingress/redirect_targets.h"
#include "hub/port/listen.h"
#include "iptables/iptables.h"

enum { PROBLEM_MAX = 512 };
enum problem { PROBLEM_KERNEL, PROBLEM_FAMILY, PROBLEM_WAY, PROBLEM_WAY6, PROBLEMS };

/* Whether connections to the addresses of one family arrive. */
struct redirect_way {
	struct redirect *redirect;
	enum divert_family family;
	struct redirect_probe *probe;
};

struct redirect {
	struct redirect_config config;
	struct door door; /* for all its connections */
	struct hub_redirect now, next; /* active; prepared */
	struct listen *listen, *next_listen;
	/* for the other family: redirect_listen_at; NULL: nothing of that family was to be
	 * redirected, or it cannot be had */
	struct listen *sibling;
	/* redirect_prepare has installed the rules; redirect_abandon removes them */
	bool installed_by_next;
	struct divert *divert; /* NULL: not configured, and never was */
	struct netwatch *network;
	struct timer *tick;
	struct redirect_targets detours;
	struct redirect_way ways[DIVERT_FAMILIES];
	struct in6_addr *own; /* addresses of this host, sorted */
	size_t n_own;
	/* the first of them that other hosts can reach; ::: none */
	struct in6_addr primary[DIVERT_FAMILIES];
	uint64_t rests_ms; /* no refresh before this time, mono_ms */
	bool poked, draining;
	bool held; /* another hub has the rules */
	char problem[PROBLEMS][PROBLEM_MAX];
	char told[REDIRECT_TARGETS_TEXT_MAX]; /* ambiguous addresses already logged */
	uint64_t connections, strangers, failures;
};

/* --- redirect.c ----------------------------------------------------------------------------- */
/* Opens a listener of ours, of this family alone. */
int redirect_open(
	struct redirect *r, const struct addr *at, struct listen **listen, struct err *err);
/* Probes nothing any more. */
void redirect_probe_none(struct redirect *r);

/* --- redirect_rules.c ----------------------------------------------------------------------- */
/* Starts following the kernel's rules and this host's addresses, unless that was done. */
int redirect_attach(struct redirect *r, struct err *err);
/* Reads the addresses of this host again. */
void redirect_read_own(struct redirect *r);
enum divert_family redirect_family(const struct hub_redirect *want); /* of its `listen` */
/* The listener's address for connections to addresses of this family: `listen`, or in the other
 * family the same port at the unspecified address if `listen` is that, else at loopback. */
struct addr redirect_listen_at(const struct hub_redirect *want, enum divert_family family);
/* Where connections of other hosts are redirected: never to loopback, where the kernel would drop
 * them. ::: they are not redirected. */
struct in6_addr redirect_others_to(
	const struct redirect *r, const struct hub_redirect *want, enum divert_family family);
/* The kernel rules for `want`, without any address yet. */
struct divert_rules redirect_rules(const struct redirect *r, const struct hub_redirect *want);
/* Updates the kernel's set to the cluster's present nodes. */
void redirect_refresh(struct redirect *r);
void redirect_on_tick(void *redirect);
void redirect_on_network(void *redirect);
void redirect_on_probed(void *way, enum redirect_probe_state state);

#endif
