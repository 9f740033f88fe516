/*
 * The agent checks itself: every few seconds without the lists of its endpoints, which cost the
 * workers time, unless some of them are down; and completely when its state is requested. A problem
 * that begins or ends is logged once two checks have seen it; the second one comes sooner.
 */
#include <string.h>

#include "base/conf/tree.h"
#include "base/core/log.h"
#include "src/agent/agent_checks.h"
#include "src/agent/agent_private.h"

enum { LOOK_MS = 2000, CALM_MS = 6000, ASKER_MS = 60 * 1000 };

void
agent_findings_forget(struct agent *a)
{
	findings_fini(&a->of_services);
	a->services_checked = false;
}

static void
agent_findings_services(struct agent *a, struct findings *f)
{
	if (!a->services_checked)
		agent_check_services(&a->of_services, a->snapshot, agent_tunnel_wanted(a->options));
	a->services_checked = true;
	for (size_t i = 0; i < a->of_services.n; i++)
		findings_copy(f, &a->of_services.list[i]);
}

static void
agent_findings_look(
	struct agent *a, const char *json, size_t len, struct findings *f, struct tree **state)
{
	struct err err;

	if (tree_parse(state, "state", json, len, &err) < 0) {
		log_error("agent", "cannot read its own state: %s", err.text);
		return;
	}
	agent_checks(f, tree_document(*state, 0));
	agent_findings_services(a, f);
	agent_check_cloud(f, tree_document(*state, 0), a->snapshot, a->options->tunnel_apiserver,
		a->apiserver_asker);
}

void
agent_findings_write(struct agent *a, struct buf *state)
{
	struct findings f = {0};
	struct tree *tree = NULL;
	auto_buf struct buf whole;

	buf_init(&whole, BUF_UNLIMITED);
	buf_add(&whole, buf_at(state), buf_len(state));
	buf_adds(&whole, "}");
	agent_findings_look(a, buf_str(&whole), buf_len(&whole), &f, &tree);
	buf_adds(state, ",\"findings\":");
	findings_write(&f, state);
	findings_fini(&f);
	tree_free(&tree);
}

/* Reports the findings that the previous check had as well, or that are reported already, with the
 * newer text: a brief problem is not reported. */
static void
agent_findings_keep(struct agent *a, const struct findings *now)
{
	struct findings told = {0};

	for (size_t i = 0; i < now->n; i++) {
		const struct finding *one = &now->list[i];

		if (one->verdict == VERDICT_OK ||
			(findings_count(&a->findings_seen, one->what) == 0 &&
				findings_count(&a->findings, one->what) == 0))
			continue;
		findings_copy(&told, one);
	}
	findings_log(&a->findings, &told, "agent");
	findings_fini(&a->findings);
	a->findings = told;
}

/* What cannot be served outside becomes an Event at the hub. */
static void
agent_findings_ports(struct agent *a)
{
	auto_buf struct buf ports;

	buf_init(&ports, BUF_UNLIMITED);
	if (a->ipt == NULL || a->meta == NULL)
		return;
	iptables_troubled(a->ipt, &ports);
	meta_note_ports(a->meta, buf_str(&ports));
}

/* Where tunnel.apiserver is off: does a pod call the API server, and get no answer? */
static void
agent_findings_asker(struct agent *a)
{
	const struct service *s = snapshot_find(a->snapshot, "default", 7, "kubernetes", 10);
	const uint64_t now = loop_now_ms(a->loop);
	struct in6_addr to, from;
	struct err err = {0};

	if (a->options->tunnel_apiserver || !a->options->tunnel_enabled || a->ipt == NULL ||
		s == NULL || s->cluster_ip == 0 || now < a->apiserver_look_ms)
		return;
	a->apiserver_look_ms = now + ASKER_MS;
	to = ip_of_v4(s->cluster_ip);
	a->apiserver_asker[0] = '\0';
	if (iptables_unanswered(&to, addresses_list(a->addresses), &from, &err) == 1)
		ip_text(&from, a->apiserver_asker);
}

static void
agent_findings_pace(struct agent *a, unsigned every_ms)
{
	if (every_ms != a->look_every_ms)
		timer_start(a->look, every_ms, every_ms);
	a->look_every_ms = every_ms;
}

static void
agent_findings_tick(void *arg)
{
	struct agent *a = arg;
	struct findings now = {0}, seen = {0};
	struct tree *tree = NULL;
	auto_buf struct buf state;

	buf_init(&state, BUF_UNLIMITED);
	if (a->stopping)
		return;
	agent_findings_asker(a);
	agent_state_write(a, &state, false);
	buf_adds(&state, "}");
	agent_findings_look(a, buf_str(&state), buf_len(&state), &now, &tree);
	agent_findings_keep(a, &now);
	for (size_t i = 0; i < now.n; i++) {
		if (now.list[i].verdict != VERDICT_OK)
			findings_copy(&seen, &now.list[i]);
	}
	findings_fini(&a->findings_seen);
	a->findings_seen = seen;
	agent_findings_pace(a, seen.n == a->findings.n ? CALM_MS : LOOK_MS);
	findings_fini(&now);
	tree_free(&tree);
	agent_findings_ports(a);
	agent_health_ports_look(a);
}

void
agent_findings_start(struct agent *a)
{
	a->look = timer_new(a->loop, agent_findings_tick, a);
	agent_findings_pace(a, LOOK_MS);
}

void
agent_findings_end(struct agent *a)
{
	timer_free(&a->look);
	findings_fini(&a->findings);
	findings_fini(&a->findings_seen);
	agent_findings_forget(a);
}
