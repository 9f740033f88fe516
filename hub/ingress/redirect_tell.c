#include "hub/ingress/redirect_private.h"

#include "base/core/figures.h"
#include "model/json.h"

static const struct figure redirect_figures[] = {
	FIGURE(struct divert_report, installed, "edgeway_redirect_installed", NULL,
		"1 while the rules of ingress.redirect are in place.", NULL),
	FIGURE(struct divert_report, repairs, "edgeway_redirect_repairs_total", NULL,
		"Times that others changed the table and it was put back.", NULL),
};

/* The worst of both families. */
static enum redirect_probe_state
probe_state(const struct redirect *r)
{
	const enum redirect_probe_state v4 = redirect_probe_state(r->ways[DIVERT_V4].probe),
					v6 = redirect_probe_state(r->ways[DIVERT_V6].probe);

	return MAX(v4, v6);
}

static size_t
count_ipv6(const struct redirect_targets *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += !IN6_IS_ADDR_V4MAPPED(&d->list[i]);
	return n;
}

static const char *
first_problem(const struct redirect *r)
{
	for (size_t i = 0; i < PROBLEMS; i++)
		if (r->problem[i][0] != '\0')
			return r->problem[i];
	return "";
}

void
redirect_metrics(const struct redirect *r, struct metrics *m)
{
	struct divert_report d = {0};

	if (!r->now.on || r->held)
		return;
	if (r->divert != NULL)
		divert_report(r->divert, &d);
	figures_metrics(FIGURES(redirect_figures), &d, m);
	metric_gauge(m, "edgeway_redirect_arrives",
		"1 when a connection of this host's own came as it should; 0: not, or not tried.",
		NULL, probe_state(r) == REDIRECT_PROBE_ARRIVES ? 1 : 0);
	metric_gauge(m, "edgeway_redirect_addresses", "Addresses of nodes that are redirected.",
		NULL, (double)r->detours.n);
}

void
redirect_state(const struct redirect *r, struct buf *out)
{
	static const char *const ways[] = {[REDIRECT_PROBE_NONE] = "untried",
		[REDIRECT_PROBE_ARRIVES] = "arrives",
		[REDIRECT_PROBE_NO_ROUTE] = "no route",
		[REDIRECT_PROBE_LOST] = "lost"};
	struct divert_report d = {0};
	char text[ADDR_TEXT_MAX];
	struct in6_addr others;

	if (!r->now.on || r->held) {
		buf_adds(out, "null");
		return;
	}
	if (r->divert != NULL)
		divert_report(r->divert, &d);
	others = redirect_others_to(r, &r->now, redirect_family(&r->now));
	buf_printf(out,
		"{\"table\":\"ip " DIVERT_TABLE "\",\"installed\":%s,\"installed6\":%s,\"listen\":"
		"\"%s\",\"pods\":%s,\"probe\":\"%s\",\"ports\":[",
		d.installed ? "true" : "false", d.ipv6 ? "true" : "false",
		addr_text(&r->now.listen, text),
		IN6_IS_ADDR_UNSPECIFIED(&others) ? "false" : "true", ways[probe_state(r)]);
	for (size_t i = 0; i < r->now.n_ports; i++)
		buf_printf(out, "%s%u", i > 0 ? "," : "", (unsigned)r->now.ports[i]);
	buf_printf(out, "],\"addresses\":%zu,\"addresses6\":%zu,\"leftOut\":{", r->detours.n,
		count_ipv6(&r->detours));
	for (enum redirect_targets_why why = 0; why < REDIRECT_TARGETS_WHYS; why++)
		buf_printf(out, "%s\"%s\":%zu", why > 0 ? "," : "", redirect_targets_why_text(why),
			r->detours.left_out[why]);
	buf_adds(out, "},\"ambiguous\":");
	json_add_text(out, r->detours.ambiguous);
	buf_printf(out,
		",\"connections\":%llu,\"strangers\":%llu,\"repairs\":%llu,\"failures\":%llu,"
		"\"problem\":",
		(unsigned long long)r->connections, (unsigned long long)r->strangers,
		(unsigned long long)d.repairs, (unsigned long long)r->failures);
	json_add_text(out, first_problem(r));
	buf_adds(out, "}");
}
