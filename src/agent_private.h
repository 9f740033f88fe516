/*
 * What the agent's three files share: agent.c (start and stop), agent_mesh.c (following the mesh
 * address), agent_admin.c (what is told outside). Loop 0 only.
 */
#ifndef EDGEWAY_SRC_AGENT_PRIVATE_H
#define EDGEWAY_SRC_AGENT_PRIVATE_H

#include "base/admin.h"
#include "dns/dns.h"
#include "iptables/iptables.h"
#include "lb/lb.h"
#include "meta/meta.h"
#include "src/agent.h"
#include "src/canary.h"
#include "src/workers.h"

struct agent {
	struct agent_options *options;
	struct loop *loop;
	struct workers *workers;
	struct meta *meta;
	struct dns *dns;
	struct lb *lb;
	struct iptables *ipt;
	struct admin *admin;
	struct snapshot *snapshot; /* the newest one */
	struct canary *canary; /* NULL: nothing is captured */
	struct timer *retry; /* until every step of the address has worked */
	struct sigwatch *term, *intr, *hup;
	struct addr *upstreams; /* configured */
	size_t n_upstreams;
	uint32_t address; /* of the mesh, host byte order; 0: none yet */
	uint64_t started_ms;
	uint64_t mesh_failures;
	char mesh_error[512]; /* why the mesh does not serve, "" when it does */
	int argc;
	char **argv;
	int lock;
	int network_lock;
	int status;
	bool stopping;
};

/* agent_mesh.c */
void agent_address(void *agent, uint32_t address);
void agent_mesh_retry(void *agent);
/* Our DNS has answered: for a while pods' queries to the upstreams come to us. */
void agent_capture(void *agent);
void agent_upstreams(void *agent); /* they are others now */
void agent_capture_end(struct agent *a);

/* agent_admin.c */
int agent_admin_start(struct agent *a, struct err *err);
bool agent_ready(const struct agent *a, struct buf *why);

#endif
