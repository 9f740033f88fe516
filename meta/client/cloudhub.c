#include "meta/client/cloudhub_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"

#define EDGECORE_CONFIG "/etc/kubeedge/config/edgecore.yaml"

enum {
	/* room for 10 000 services in their stored form, in one list */
	FRAME_MAX = 32 * 1024 * 1024,
	TICK_MS = 5 * 1000,
	PING_TICKS = 3, /* a CloudHub disconnects an agent that is silent for 30 s */
	LIST_TICKS = 60, /* the list of services is requested again after this */
	LIST_RETRY_TICKS = 6,
	WINDOW = 512, /* changes passed to apply and not committed yet */
	ACKS_MAX = 4096,
	SHORT_MS = 30 * 1000,
	SHORT_MAX = 3, /* connections in a row that ended early */
	CONTESTED_MS = 60 * 1000,
	FILE_MAX = 1024 * 1024,
};

/* --- store and acknowledgements ------------------------------------------------------------- */

static void
send_acks(struct hub_client *f)
{
	struct cloudhub *c = f->cloudhub;
	struct ack *a;

	while ((a = TAILQ_FIRST(&c->acks)) != NULL && a->after <= c->committed) {
		struct message m = {.operation = OP_RESPONSE,
			.resource = a->resource,
			.parent = a->id,
			.content = "\"OK\""};

		hub_client_send(f, &m, NULL);
		TAILQ_REMOVE(&c->acks, a, entry);
		c->n_acks--;
		free(a->id);
		free(a->resource);
		free(a);
	}
}

static void
drop_acks(struct cloudhub *c)
{
	struct ack *a;

	while ((a = TAILQ_FIRST(&c->acks)) != NULL) {
		TAILQ_REMOVE(&c->acks, a, entry);
		free(a->id);
		free(a->resource);
		free(a);
	}
	c->n_acks = 0;
}

void
cloudhub_want_ack(struct cloudhub *c, const char *id, const char *resource)
{
	struct ack *a;

	if (*id == '\0' || c->n_acks == ACKS_MAX)
		return; /* the CloudHub sends it again */
	a = xcalloc(1, sizeof(*a));
	a->after = UINT64_MAX;
	a->id = xstrdup(id);
	a->resource = xstrdup(resource);
	TAILQ_INSERT_TAIL(&c->acks, a, entry);
	c->n_acks++;
}

/* False: no room now, try again later. */
static bool
hand_over(struct hub_client *f, const struct cloudhub_cache_change *change)
{
	struct cloudhub *c = f->cloudhub;
	auto_free char *number = xasprintf("%" PRIu64, c->handed + 1);
	struct apply_message m = {.connection = f->connection,
		.id = number,
		.resource = "",
		.ns = change->ns,
		.name = change->name,
		.view = change->json,
		.len = change->len};
	struct err err = {0};
	int rc = apply_change(f->apply, &m, &err);

	if (rc == 0)
		c->handed++;
	else if (rc != -EAGAIN)
		log_limited(LOG_LEVEL_WARN, 10, "meta",
			"cannot use a service service=%s/%s error=\"%s\"", change->ns, change->name,
			err.text);
	return rc != -EAGAIN;
}

/* Detects that every question is answered, and the answers are passed on. */
static void
cloudhub_settle(struct hub_client *f)
{
	if (!cloudhub_cache_has_list(f->cloudhub->mirror) || cloudhub_is_asking(f->cloudhub) ||
		f->state != SYNCING)
		return;
	hub_client_enter(f, SYNCED);
	log_info("meta", "the CloudHub has told everything objects=%zu",
		cloudhub_cache_objects(f->cloudhub->mirror));
	apply_synced(f->apply);
}

void
cloudhub_pump(struct hub_client *f)
{
	struct cloudhub *c = f->cloudhub;
	struct cloudhub_cache_change change;
	struct ack *a;

	for (;;) {
		if (c->handed - c->committed >= c->window)
			return;
		if (!cloudhub_cache_next(c->mirror, &change))
			break;
		if (!hand_over(f, &change)) {
			cloudhub_cache_again(c->mirror);
			return;
		}
	}
	TAILQ_FOREACH(a, &c->acks, entry)
		if (a->after == UINT64_MAX)
			a->after = c->handed;
	send_acks(f);
	cloudhub_settle(f);
}

static void
on_committed(struct hub_client *f, unsigned connection, const char *id, const char *resource)
{
	struct cloudhub *c = f->cloudhub;
	uint64_t number = strtoull(id, NULL, 10);

	(void)connection;
	(void)resource;
	c->committed = MAX(c->committed, number);
	c->window = WINDOW;
	if (f->state >= SYNCING)
		cloudhub_pump(f);
}

/* --- the connection ------------------------------------------------------------------------- */

/* Tells the cache what the store holds, to compare with. */
static void
cloudhub_compare(struct hub_client *f)
{
	bool all[DIGEST_BUCKETS];
	struct digest_entry *entries;
	size_t n;

	memset(all, true, sizeof(all));
	apply_entries(f->apply, all, &entries, &n);
	cloudhub_cache_forget_stored(f->cloudhub->mirror);
	for (size_t i = 0; i < n; i++)
		cloudhub_cache_stored(f->cloudhub->mirror, entries[i].key, entries[i].digest);
	digest_entries_free(&entries, n);
	if (f->state < SYNCING)
		return;
	cloudhub_ask_list(f);
	cloudhub_pump(f);
}

/* A CloudHub never reports its version; whether the list comes is the only sign of it. */
void
cloudhub_judge_list(struct hub_client *f)
{
	struct cloudhub *c = f->cloudhub;
	bool was = c->problem[0] != '\0';

	if (cloudhub_cache_has_list(c->mirror)) {
		c->problem[0] = c->refusal[0] = '\0';
		if (was)
			log_info("meta", "the CloudHub has told the list of services after all");
		return;
	}
	if (c->ticks < LIST_RETRY_TICKS && c->refusal[0] == '\0')
		return;
	snprintf(c->problem, sizeof(c->problem),
		"the CloudHub does not tell the list of services%s%s: that of KubeEdge 1.8.0 and "
		"later "
		"has none, up to 1.7 it comes only when a Node %s turns Ready; new services are "
		"missing, "
		"and what was deleted while there was no connection is served until it comes: run "
		"edgeway-hub in the cluster and set hub.protocol to edgeway, or, up to 1.7, have a "
		"Node of that name turn Ready",
		c->refusal[0] != '\0' ? ", it says " : "", c->refusal, f->node_id);
	if (!was)
		log_warn("meta", "%s", c->problem);
}

static const char *
on_untold(const struct hub_client *f)
{
	return f->cloudhub->problem;
}

static void
on_open(struct hub_client *f)
{
	struct cloudhub *c = f->cloudhub;

	cloudhub_forget_all(c);
	drop_acks(c);
	c->n_silent = c->ticks = 0;
	c->problem[0] = c->refusal[0] = '\0';
	cloudhub_cache_begin(c->mirror);
	hub_client_enter(f, SYNCING);
	log_info("meta", "connected to the CloudHub url=%s address=%s node_id=%s",
		hub_addresses_now(&f->places)->url, f->address, f->node_id);
	hub_client_remember_addresses(f, NULL);
	timer_start(f->check, TICK_MS, TICK_MS);
	cloudhub_compare(f);
}

static void
cloudhub_ping(struct hub_client *f)
{
	struct message m = {
		.operation = OP_KEEPALIVE, .resource = "node", .parent = "", .content = "\"ping\""};

	hub_client_send(f, &m, NULL);
}

static void
on_check(struct hub_client *f)
{
	struct cloudhub *c = f->cloudhub;
	bool listed = cloudhub_cache_has_list(c->mirror);

	if (f->conn == NULL)
		return;
	c->ticks++;
	if (c->ticks % PING_TICKS == 0)
		cloudhub_ping(f);
	/* The disk does not take the changes passed on: widen the window and go on in memory, as
	 * far as meta/state/apply allows. */
	if (c->handed - c->committed >= c->window)
		c->window += WINDOW;
	cloudhub_expire(f);
	if (c->ticks - c->list_tick >= (listed ? LIST_TICKS : LIST_RETRY_TICKS)) {
		cloudhub_compare(f);
	}
	cloudhub_judge_list(f);
	cloudhub_ask(f);
	cloudhub_pump(f);
}

static uint64_t
on_closed(struct hub_client *f)
{
	struct cloudhub *c = f->cloudhub;

	if (loop_now_ms(f->loop) - f->opened_ms >= SHORT_MS)
		c->n_short = 0;
	else if (++c->n_short >= SHORT_MAX) {
		log_limited(LOG_LEVEL_WARN, 6, "meta",
			"the CloudHub closes the connection again and again: does another agent or "
			"an "
			"EdgeCore use this hub.nodeId? node_id=%s",
			f->node_id);
		return CONTESTED_MS;
	}
	return 0;
}

/* --- start and end -------------------------------------------------------------------------- */

int
hub_client_check_id(const char *node_id, struct err *err)
{
	auto_free char *text = NULL;
	char host[256] = "";
	struct tree *t = NULL;
	const char *its;
	size_t len;
	bool same;

	if (file_read(EDGECORE_CONFIG, FILE_MAX, &text, &len) < 0 ||
		tree_parse(&t, EDGECORE_CONFIG, text, len, NULL) < 0)
		return 0; /* no EdgeCore, or one that cannot start */
	gethostname(host, sizeof(host) - 1);
	its = tree_text(tree_path(tree_document(t, 0), "modules.edged.hostnameOverride"), host);
	same = strcmp(*its != '\0' ? its : host, node_id) == 0;
	tree_free(&t);
	if (!same)
		return 0;
	return err_set(err, EEXIST,
		"hub.nodeId %s is that of the EdgeCore on this machine (%s): a CloudHub would cut "
		"one of "
		"the two off; choose another",
		node_id, EDGECORE_CONFIG);
}

static int
read_pem(const char *option, const char *path, char **pem, struct err *err)
{
	int rc = file_read(path, FILE_MAX, pem, NULL);

	return rc < 0 ? err_set(err, rc, "%s: cannot read %s: %s", option, path, strerror(-rc)) : 0;
}

/* A CloudHub's certificates carry no node name that could be checked against ours. */
static int
on_begin(struct hub_client *f, const struct hub_client_config *config, struct err *err)
{
	struct identity id = {0};
	int rc = read_pem("hub.ca", config->ca, &id.ca, err);

	f->cloudhub = xcalloc(1, sizeof(*f->cloudhub));
	f->cloudhub->mirror = cloudhub_cache_new();
	f->cloudhub->window = WINDOW;
	TAILQ_INIT(&f->cloudhub->acks);
	if (rc == 0)
		rc = read_pem("hub.cert", config->cert, &id.cert, err);
	if (rc == 0)
		rc = read_pem("hub.key", config->key, &id.key, err);
	if (rc == 0)
		rc = pki_cert_info(id.cert, NULL, &id.not_before, &id.not_after, err);
	if (rc == 0)
		rc = hub_client_use_identity(f, &id, err);
	identity_fini(&id);
	return rc;
}

static void
on_end(struct hub_client *f)
{
	if (f->cloudhub == NULL)
		return;
	drop_acks(f->cloudhub);
	cloudhub_forget_all(f->cloudhub);
	cloudhub_cache_free(&f->cloudhub->mirror);
	free(f->cloudhub);
	f->cloudhub = NULL;
}

const struct hub_client_protocol feed_cloudhub = {
	.message_limit = FRAME_MAX,
	.begin = on_begin,
	.end = on_end,
	.opened = on_open,
	.text = cloudhub_text,
	.check = on_check,
	.compare = cloudhub_compare,
	.committed = on_committed,
	.closed = on_closed,
	.untold = on_untold,
};
