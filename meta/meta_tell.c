#include "meta/meta_private.h"

#include <string.h>

#include "model/json.h"
#include "model/local_callers.h"

static void
feed_metrics(const struct hub_client_status *f, struct metrics *out)
{
	metric_gauge(
		out, "edgeway_meta_connected", "1 while connected to the hub.", NULL, f->connected);
	metric_gauge(out, "edgeway_meta_synced", "1 while in step with the hub.", NULL, f->synced);
	metric_gauge(out, "edgeway_meta_cloudhub_list_missing",
		"1 while a CloudHub does not tell the list of services.", NULL,
		f->untold != NULL && f->untold[0] != '\0');
	metric_counter(out, "edgeway_meta_connections_total",
		"Connections to the hub that were opened.", NULL, f->connects);
	metric_counter(out, "edgeway_meta_connection_failures_total",
		"Attempts to reach the hub that failed.", NULL, f->failures);
	metric_counter(
		out, "edgeway_meta_messages_total", "Messages of the hub.", NULL, f->messages);
	metric_counter(out, "edgeway_meta_refused_total", "Messages of the hub that were refused.",
		NULL, f->refused);
	metric_counter(out, "edgeway_meta_comparisons_total",
		"Comparisons of all that is held with the hub: after each connection, and now and "
		"then.",
		"result=\"same\"", f->comparisons[0]);
	metric_counter(out, "edgeway_meta_comparisons_total",
		"Comparisons of all that is held with the hub: after each connection, and now and "
		"then.",
		"result=\"different\"", f->comparisons[1]);
	metric_gauge(out, "edgeway_meta_lag_seconds",
		"From the hub's sending a change to its commit here, of the last one that was "
		"followed.",
		NULL, (double)f->hubtime.lag_ms / 1000);
	metric_gauge(out, "edgeway_meta_hub_clock_ahead_seconds",
		"What the hub's clock is ahead of this node's, < 0: behind.", NULL,
		(double)clock_skew_ahead_ms(&f->hubtime) / 1000);
	metric_gauge(out, "edgeway_meta_hub_clock_age_seconds",
		"How long ago the hub's clock was compared; 0: never.", NULL,
		f->hubtime.known ? (double)(mono_ms() - f->hubtime.told_ms) / 1000 : 0);
	metric_gauge(out, "edgeway_meta_certificate_expiry_timestamp_seconds",
		"When this node's certificate ends, since 1970; 0: none.", NULL,
		(double)f->certificate_not_after);
	metric_gauge(out, "edgeway_meta_revoked_hubs",
		"Certificates of hubs that were revoked, and that this node refuses.", NULL,
		(double)f->refused_hubs);
	metric_counter(out, "edgeway_meta_certificate_renewals_total",
		"Renewals of this node's certificate.", NULL, f->renewals);
	metric_counter(out, "edgeway_meta_certificate_renewal_failures_total",
		"Renewals that failed and are tried again.", NULL, f->renewal_failures);
	metric_counter(out, "edgeway_meta_questions_total",
		"Questions of the hub how a service's endpoints do here.", "result=\"answered\"",
		f->answered);
	metric_counter(out, "edgeway_meta_questions_total",
		"Questions of the hub how a service's endpoints do here.", "result=\"declined\"",
		f->declined);
}

static void
apply_metrics(const struct apply_counts *c, struct metrics *out)
{
	metric_counter(out, "edgeway_meta_changes_total", "Changes of services that were taken.",
		"operation=\"update\"", c->updates);
	metric_counter(out, "edgeway_meta_changes_total", "Changes of services that were taken.",
		"operation=\"delete\"", c->deletes);
	metric_gauge(out, "edgeway_meta_waiting_changes", "Changes that are not committed yet.",
		NULL, (double)c->waiting);
	metric_counter(out, "edgeway_meta_damaged_services_total",
		"Services whose stored form was damaged.", NULL, c->dropped);
	metric_counter(out, "edgeway_meta_addresses_exhausted_total",
		"Times that no fake IP was left for a service.", NULL, c->exhausted);
	metric_gauge(out, "edgeway_meta_services_without_address", "Services that have no fake IP.",
		NULL, (double)c->without_address);
	metric_gauge(out, "edgeway_meta_addresses", "Fake IPs by state.", "state=\"used\"",
		(double)c->ipam.used);
	metric_gauge(out, "edgeway_meta_addresses", "Fake IPs by state.", "state=\"resting\"",
		(double)c->ipam.resting);
	metric_gauge(out, "edgeway_meta_addresses", "Fake IPs by state.", "state=\"free\"",
		(double)(c->ipam.size - c->ipam.used - c->ipam.resting));
}

/* Why the database cannot be written, errno, positive; 0: it can. A failure at the start counts
 * until something is written. */
static int
database_error(const struct meta *m, const struct writer_counts *w)
{
	if (w->failing)
		return w->error;
	return w->commits == 0 ? m->open_error : 0;
}

void
meta_metrics(struct meta *m, struct metrics *out)
{
	struct hub_client_status f =
		m->feed != NULL ? hub_client_status(m->feed) : (struct hub_client_status){0};
	struct apply_counts c = apply_count(m->apply);
	struct writer_counts w = writer_count(m->writer);

	feed_metrics(&f, out);
	staleness_metrics(m->age, out);
	metric_gauge(out, "edgeway_meta_services", "Services in use.", NULL,
		(double)snapshot_count(apply_snapshot(m->apply)));
	metric_gauge(out, "edgeway_meta_callers",
		"Pods of this node that the hub has told: those that edgeway.io/allow-from can "
		"tell apart.",
		NULL, (double)local_callers_count(snapshot_callers(apply_snapshot(m->apply))));
	metric_gauge(out, "edgeway_meta_services_restricted",
		"Services that not everybody may call.", NULL,
		(double)snapshot_restricted(apply_snapshot(m->apply)));
	apply_metrics(&c, out);
	metric_counter(out, "edgeway_meta_database_failures_total",
		"Transactions that could not be written.", NULL, w.failures);
	metric_gauge(out, "edgeway_meta_database_failing",
		"1 while the database cannot be written.", NULL, database_error(m, &w) != 0);
	metric_gauge(out, "edgeway_meta_database_failing_seconds",
		"For how long the database cannot be written; 0: it can.", NULL,
		w.failing_since_ms > 0 ? (double)(mono_ms() - w.failing_since_ms) / 1000 : 0);
	metric_counter(out, "edgeway_meta_database_moved_aside_total",
		"Damaged databases that were moved aside.", NULL, m->moved_aside + w.moved_aside);
	metric_gauge(out, "edgeway_meta_database_worst_commit_seconds",
		"The slowest transaction so far.", NULL, (double)w.worst_commit_us / 1e6);
}

static void
state_feed(const struct meta *m, struct buf *out)
{
	struct hub_client_status f = hub_client_status(m->feed);
	uint64_t now = loop_now_ms(m->config.loop);

	buf_printf(out, "\"connected\":%s,\"synced\":%s,\"joined\":%s,\"url\":",
		f.connected ? "true" : "false", f.synced ? "true" : "false",
		f.joined ? "true" : "false");
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
	buf_printf(out,
		"\",\"certificate_renewals\":%llu,\"revoked_hubs\":%zu,\"certificate_error\":",
		(unsigned long long)f.renewals, f.refused_hubs);
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
	buf_printf(out, ",\"services\":%zu,\"version\":%llu,\"waiting\":%zu",
		snapshot_count(apply_snapshot(m->apply)),
		(unsigned long long)snapshot_version(apply_snapshot(m->apply)), c.waiting);
	buf_printf(out,
		",\"addresses\":{\"size\":%zu,\"used\":%zu,\"resting\":%zu,\"services_without\":%"
		"zu}",
		c.ipam.size, c.ipam.used, c.ipam.resting, c.without_address);
	buf_adds(out, ",\"database\":");
	state_database(m, &w, out);
	buf_adds(out, "}");
}
