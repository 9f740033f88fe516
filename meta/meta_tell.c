#include "meta/meta_private.h"

#include <string.h>

#include "base/core/figures.h"
#include "model/json.h"

#define HUB(member, metric, labels, help, json)                                                    \
	FIGURE(struct hub_client_status, member, metric, labels, help, json)
#define APPLY(member, metric, labels, help, json)                                                  \
	FIGURE(struct apply_counts, member, metric, labels, help, json)

static const struct figure meta_link[] = {
	HUB(connected, "edgeway_meta_connected", NULL, "1 while connected to the hub.",
		"connected"),
	FIGURE_JSON(struct hub_client_status, synced, "synced"),
	FIGURE_JSON(struct hub_client_status, joined, "joined"),
};
static const struct figure meta_talk[] = {
	HUB(connects, "edgeway_meta_connections_total", NULL,
		"Connections to the hub that were opened.", NULL),
	HUB(failures, "edgeway_meta_connection_failures_total", NULL,
		"Attempts to reach the hub that failed.", NULL),
	HUB(told_to_wait, "edgeway_meta_told_to_wait_total", NULL,
		"Times that a busy hub asked to come again later.", NULL),
	HUB(messages, "edgeway_meta_messages_total", NULL, "Messages of the hub.", NULL),
	HUB(refused, "edgeway_meta_refused_total", NULL, "Messages of the hub that were refused.",
		NULL),
	HUB(comparisons[0], "edgeway_meta_comparisons_total", "result=\"same\"",
		"Comparisons of all that is held with the hub: after each connection, and now and "
		"then.",
		NULL),
	FIGURE_ALSO(struct hub_client_status, comparisons[1], "result=\"different\"", NULL),
	HUB(renewal_failures, "edgeway_meta_certificate_renewal_failures_total", NULL,
		"Renewals that failed and are tried again.", NULL),
};
static const struct figure meta_certificate[] = {
	FIGURE_JSON(struct hub_client_status, renewals, "certificate_renewals"),
	HUB(refused_hubs, "edgeway_meta_revoked_hubs", NULL,
		"Certificates of hubs that were revoked, and that this node refuses.",
		"revoked_hubs"),
};
static const struct figure meta_changes[] = {
	APPLY(updates, "edgeway_meta_changes_total", "operation=\"update\"",
		"Changes of services that were taken.", NULL),
	FIGURE_ALSO(struct apply_counts, deletes, "operation=\"delete\"", NULL),
	APPLY(waiting, "edgeway_meta_waiting_changes", NULL, "Changes that are not committed yet.",
		"waiting"),
};
static const struct figure meta_addresses[] = {
	FIGURE_JSON(struct apply_counts, ipam.size, "size"),
	APPLY(ipam.used, "edgeway_meta_addresses", "state=\"used\"", "Fake IPs by state.", "used"),
	FIGURE_ALSO(struct apply_counts, ipam.resting, "state=\"resting\"", "resting"),
	FIGURE_ALSO(struct apply_counts, ipam.free, "state=\"free\"", NULL),
	APPLY(without_address, "edgeway_meta_services_without_address", NULL,
		"Services that have no fake IP.", "services_without"),
};
static void
meta_hub_metrics(const struct hub_client_status *f, struct metrics *out)
{
	figures_metrics(FIGURES(meta_link), f, out);
	metric_gauge(out, "edgeway_meta_cloudhub_list_missing",
		"1 while a CloudHub does not tell the list of services.", NULL,
		f->untold != NULL && f->untold[0] != '\0');
	figures_metrics(FIGURES(meta_talk), f, out);
	metric_gauge(out, "edgeway_meta_lag_seconds",
		"From the hub's sending a change to its commit here, of the last one that was "
		"followed.",
		NULL, (double)f->hubtime.lag_ms / 1000);
	metric_gauge(out, "edgeway_meta_hub_clock_ahead_seconds",
		"What the hub's clock is ahead of this node's, < 0: behind.", NULL,
		(double)clock_skew_ahead_ms(&f->hubtime) / 1000);
	metric_gauge(out, "edgeway_meta_certificate_expiry_timestamp_seconds",
		"When this node's certificate ends, since 1970; 0: none.", NULL,
		(double)f->certificate_not_after);
	figures_metrics(FIGURES(meta_certificate), f, out);
}

/* Why the database cannot be written, errno, positive; 0: it can. A failure at the start counts
 * until something is written. */
static int
database_error(const struct meta *m, const struct writer_counts *w)
{
	if (w->failing)
		return w->error;
	return w->commits + w->rewritten == 0 ? m->open_error : 0;
}

void
meta_metrics(struct meta *m, struct metrics *out)
{
	struct hub_client_status f =
		m->feed != NULL ? hub_client_status(m->feed) : (struct hub_client_status){0};
	struct apply_counts c = apply_count(m->apply);
	struct writer_counts w = writer_count(m->writer);

	meta_hub_metrics(&f, out);
	staleness_metrics(m->age, out);
	pod_asks_metrics(m->pods, out);
	metric_gauge(out, "edgeway_meta_services", "Services in use.", NULL,
		(double)snapshot_count(apply_snapshot(m->apply)));
	figures_metrics(FIGURES(meta_changes), &c, out);
	figures_metrics(FIGURES(meta_addresses), &c, out);
	metric_gauge(out, "edgeway_meta_database_failing",
		"1 while the database cannot be written.", NULL, database_error(m, &w) != 0);
	metric_gauge(out, "edgeway_meta_database_failing_seconds",
		"For how long the database cannot be written; 0: it can.", NULL,
		w.failing_since_ms > 0 ? (double)(mono_ms() - w.failing_since_ms) / 1000 : 0);
}

static void
state_feed(const struct meta *m, struct buf *out)
{
	struct hub_client_status f = hub_client_status(m->feed);
	uint64_t now = loop_now_ms(m->config.loop);

	figures_json(FIGURES(meta_link), &f, out);
	buf_adds(out, ",\"url\":");
	json_add_text(out, f.url);
	buf_adds(out, ",\"address\":");
	json_add_text(out, f.address);
	buf_adds(out, ",\"error\":");
	json_add_text(out, f.error);
	if (f.untold[0] != '\0') {
		buf_adds(out, ",\"cloudhub_problem\":");
		json_add_text(out, f.untold);
	}
	buf_printf(out, ",\"problem\":\"%s\",\"remedy\":", f.problem);
	json_add_text(out, f.remedy);
	buf_printf(out, ",\"ends\":%u,\"end\":", f.ends);
	json_add_text(out, f.end);
	buf_adds(out, ",\"proxy\":");
	json_add_text(out, f.proxy);
	buf_adds(out, ",\"hubs\":");
	hub_client_places(m->feed, out);
	if (f.last_contact_ms != 0)
		buf_printf(out, ",\"last_contact_ms_ago\":%llu",
			(unsigned long long)(now - f.last_contact_ms));
	if (f.hubtime.known)
		buf_printf(out, ",\"hub_clock_ahead_ms\":%lld,\"hub_clock_compared_ms_ago\":%llu",
			(long long)clock_skew_ahead_ms(&f.hubtime),
			(unsigned long long)(mono_ms() - f.hubtime.told_ms));
	if (f.hubtime.changes > 0)
		buf_printf(out, ",\"lag_ms\":%llu", (unsigned long long)f.hubtime.lag_ms);
	buf_printf(out,
		",\"certificate_not_before\":%lld,\"certificate_not_after\":%lld,\"certificate_"
		"expires\":\"",
		(long long)f.certificate_not_before, (long long)f.certificate_not_after);
	if (f.certificate_not_after != 0)
		buf_add_utc(out, f.certificate_not_after);
	buf_adds(out, "\"");
	figures_json(FIGURES(meta_certificate), &f, out);
	buf_adds(out, ",\"certificate_error\":");
	json_add_text(out, f.certificate_error);
}

static void
add_trouble(int error, struct buf *out)
{
	if (error != 0)
		buf_printf(out,
			"cannot be written (%s): %s; what changes is used from memory and asked "
			"from the hub again after a restart",
			strerror(error), store_remedy(error));
}

void
meta_trouble(struct meta *m, struct buf *out)
{
	struct writer_counts w = writer_count(m->writer);
	int error = database_error(m, &w);

	if (error == 0)
		return;
	buf_printf(out, "the database %s ", m->path);
	add_trouble(error, out);
	buf_adds(out, "\n");
}

static void
state_database(const struct meta *m, const struct writer_counts *w, struct buf *out)
{
	int error = database_error(m, w);
	auto_buf struct buf trouble;

	buf_init(&trouble, BUF_UNLIMITED);
	add_trouble(error, &trouble);
	buf_adds(out, "{\"file\":");
	json_add_text(out, m->path);
	buf_printf(out, ",\"state\":\"%s\",\"trouble\":", error != 0 ? "failing" : "ok");
	json_add_text(out, buf_str(&trouble));
	buf_printf(out,
		",\"failing_s\":%llu,\"commits\":%llu,\"failures\":%llu,\"moved_aside\":%llu,"
		"\"rewritten\":%llu,\"rewritten_ms_ago\":%llu,\"read_ms\":%llu}",
		w->failing_since_ms > 0
			? (unsigned long long)(mono_ms() - w->failing_since_ms) / 1000
			: 0,
		(unsigned long long)w->commits, (unsigned long long)w->failures,
		(unsigned long long)(m->moved_aside + w->moved_aside),
		(unsigned long long)w->rewritten,
		w->rewritten_ms > 0 ? (unsigned long long)(mono_ms() - w->rewritten_ms) : 0,
		(unsigned long long)m->open_ms);
}

void
meta_state(struct meta *m, struct buf *out)
{
	struct apply_counts c = apply_count(m->apply);
	struct writer_counts w = writer_count(m->writer);

	buf_adds(out, "{");
	if (m->feed != NULL) {
		state_feed(m, out);
	} else {
		buf_adds(out,
			"\"connected\":false,\"synced\":false,\"problem\":\"hub-identity\","
			"\"remedy\":\"as it says\",\"error\":");
		json_add_text(out, m->why_not);
	}
	buf_adds(out, ",\"data\":");
	staleness_state(m->age, out);
	buf_adds(out, ",\"site\":");
	json_add_text(out, apply_site(m->apply));
	buf_printf(out, ",\"services\":%zu,\"version\":%llu",
		snapshot_count(apply_snapshot(m->apply)),
		(unsigned long long)snapshot_version(apply_snapshot(m->apply)));
	figures_json(FIGURES(meta_changes), &c, out);
	buf_adds(out, ",\"addresses\":{");
	figures_json(FIGURES(meta_addresses), &c, out);
	buf_adds(out, "},\"pods\":");
	pod_asks_state(m->pods, out);
	buf_adds(out, ",\"database\":");
	state_database(m, &w, out);
	buf_adds(out, "}");
}
