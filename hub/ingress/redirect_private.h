/*
 * What the files of the redirect share: redirect.c (its settings, and who comes), redirect_rules.c
 * (the kernel kept at what the cluster says), redirect_tell.c (state, metrics). Nothing outside of
 * these includes it.
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
	struct door door; /* of all visits */
	struct hub_redirect now, next; /* in force; prepared */
	struct listen *listen, *next_listen;
	/* redirect_prepare has made the rules, which abandoning takes back */
	bool installed_by_next;
	struct divert *divert; /* NULL: not configured, and never was */
	struct netwatch *network;
	struct timer *tick;
	struct redirect_targets detours;
	struct redirect_probe *probe;
	uint32_t *own; /* addresses of this host, in order */
	size_t n_own;
	uint32_t primary; /* the first of them that others can send to, 0: none */
	uint64_t rests_ms; /* no refresh before, mono_ms */
	bool poked, draining;
	bool held; /* another hub has the rules */
	char problem[PROBLEMS][PROBLEM_MAX];
	char told[REDIRECT_TARGETS_TEXT_MAX]; /* ambiguous addresses that the log has told of */
	uint64_t connections, strangers, failures;
};

/* --- redirect_rules.c ----------------------------------------------------------------------- */
/* The kernel's rules and this host's addresses are followed, if they are not yet. */
int redirect_attach(struct redirect *r, struct err *err);
/* The addresses of this host, anew. */
void redirect_read_own(struct redirect *r);
/* Where connections of others are led: never to loopback, where the kernel would drop them. 0: they
 * are not. */
uint32_t redirect_others_to(const struct redirect *r, const struct hub_redirect *want);
/* What the kernel is to do for `want`, with no address yet. */
struct divert_rules redirect_rules(const struct redirect *r, const struct hub_redirect *want);
/* Makes the kernel's elements what the cluster's nodes are now. */
void redirect_refresh(struct redirect *r);
void redirect_on_tick(void *redirect);
void redirect_on_network(void *redirect);
void redirect_on_probed(void *redirect, enum redirect_probe_state state);

#endif
