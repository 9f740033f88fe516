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
enum problem { PROBLEM_KERNEL, PROBLEM_WAY, PROBLEMS };

struct redirect {
	struct redirect_config config;
	struct door door; /* for all its connections */
	struct hub_redirect now, next; /* active; prepared */
	struct listen *listen, *next_listen;
	/* redirect_prepare has installed the rules; redirect_abandon removes them */
	bool installed_by_next;
	struct divert *divert; /* NULL: not configured, and never was */
	struct netwatch *network;
	struct timer *tick;
	struct redirect_targets detours;
	struct redirect_probe *probe;
	uint32_t *own; /* addresses of this host, sorted */
	size_t n_own;
	uint32_t primary; /* the first of them that other hosts can reach; 0: none */
	uint64_t rests_ms; /* no refresh before this time, mono_ms */
	bool poked, draining;
	bool held; /* another hub has the rules */
	char problem[PROBLEMS][PROBLEM_MAX];
	char told[REDIRECT_TARGETS_TEXT_MAX]; /* ambiguous addresses already logged */
	uint64_t connections, strangers, failures;
};

/* --- redirect_rules.c ----------------------------------------------------------------------- */
/* Starts following the kernel's rules and this host's addresses, unless that was done. */
int redirect_attach(struct redirect *r, struct err *err);
/* Reads the addresses of this host again. */
void redirect_read_own(struct redirect *r);
/* Where connections of other hosts are redirected: never to loopback, where the kernel would drop
 * them. 0: they are not redirected. */
uint32_t redirect_others_to(const struct redirect *r, const struct hub_redirect *want);
/* The kernel rules for `want`, without any address yet. */
struct divert_rules redirect_rules(const struct redirect *r, const struct hub_redirect *want);
/* Updates the kernel's set to the cluster's present nodes. */
void redirect_refresh(struct redirect *r);
void redirect_on_tick(void *redirect);
void redirect_on_network(void *redirect);
void redirect_on_probed(void *redirect, enum redirect_probe_state state);

#endif
