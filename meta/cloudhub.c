/*
 * The conversation with a KubeEdge CloudHub (doc/protocol.md, "CloudHub"): asks for the list of services, then for the
 * pods and endpoints of each, and takes what it is told in between. meta/mirror knows what differs from the store;
 * here it goes to meta/apply, and what the hub wants acknowledged is, once everything before it is committed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/log.h"
#include "meta/feed_private.h"
#include "meta/mirror.h"

#define EDGECORE_CONFIG "/etc/kubeedge/config/edgecore.yaml"

enum {
	FRAME_MAX = 32 * 1024 * 1024, /* 10 000 services as they are stored, in one list */
	TICK_MS = 5 * 1000,
	PING_TICKS = 3, /* a CloudHub cuts off who is silent for 30 s */
	LIST_TICKS = 60, /* the list of services is asked for again */
	LIST_RETRY_TICKS = 6,
	QUERIES = 16, /* at once */
	QUERY_MS = 10 * 1000,
	SILENT_QUERIES = 2 * QUERIES, /* unanswered ones, and the hub is asked no more */
	WINDOW = 512, /* changes on their way to the database */
	ACKS_MAX = 4096,
	SHORT_MS = 30 * 1000,
	SHORT_MAX = 3, /* connections in a row that did not last */
	CONTESTED_MS = 60 * 1000,
	FILE_MAX = 1024 * 1024,
};

struct ack {
	TAILQ_ENTRY(ack) entry;
	uint64_t after; /* number of the change that must be committed; UINT64_MAX: not known yet */
	char *id, *resource;
};

struct asked {
	char id[37]; /* "" free */
	enum kube_kind kind;
	uint64_t at_ms;
	char *ns, *service;
};

struct cloudhub {
	struct mirror *mirror;
	TAILQ_HEAD(, ack) acks;
	size_t n_acks;
	struct asked asked[QUERIES];
	unsigned n_silent, n_short, ticks, list_tick;
	uint64_t handed, committed, window; /* changes by number */
	char list_id[37];
};

/* A message, borrowed from its tree. */
struct told {
	const char *operation, *id, *parent, *ns, *type, *name;
	const struct tree_node *content;
};

static const struct {
	const char *type;
	enum kube_kind kind;
	bool list;
} types[] = {
	{"service", KUBE_SERVICE, false},
	{"pod", KUBE_POD, false},
	{"endpoints", KUBE_ENDPOINTS, false},
	{"servicelist", KUBE_SERVICE, true},
	{"podlist", KUBE_POD, true},
	{"endpointslist", KUBE_ENDPOINTS, true},
};

/* --- towards the store and back ------------------------------------------------------------------- */

static void
send_acks(struct feed *f)
{
	struct cloudhub *c = f->cloudhub;
	struct ack *a;

	while ((a = TAILQ_FIRST(&c->acks)) != NULL && a->after <= c->committed) {
		struct message m = {.operation = OP_RESPONSE,
			.resource = a->resource,
			.parent = a->id,
			.content = "\"OK\""};

		feed_send(f, &m, NULL);
		f->acks++;
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

static void
want_ack(struct cloudhub *c, const char *id, const char *resource)
{
	struct ack *a;

	if (*id == '\0' || c->n_acks == ACKS_MAX)
		return; /* a CloudHub says it again */
	a = xcalloc(1, sizeof(*a));
	a->after = UINT64_MAX;
	a->id = xstrdup(id);
	a->resource = xstrdup(resource);
	TAILQ_INSERT_TAIL(&c->acks, a, entry);
	c->n_acks++;
}

/* False: it must wait. */
static bool
hand_over(struct feed *f, const struct mirror_change *change)
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

static bool
is_asking(const struct cloudhub *c)
{
	for (size_t i = 0; i < QUERIES; i++)
		if (c->asked[i].id[0] != '\0')
			return true;
	return false;
}

/* Everything that was asked is answered, and handed on. */
static void
settle(struct feed *f)
{
	if (!mirror_has_list(f->cloudhub->mirror) || is_asking(f->cloudhub) || f->state != SYNCING)
		return;
	f->state = SYNCED;
	log_info("meta", "the CloudHub has told everything objects=%zu",
		mirror_objects(f->cloudhub->mirror));
	apply_synced(f->apply);
}

static void
pump(struct feed *f)
{
	struct cloudhub *c = f->cloudhub;
	struct mirror_change change;
	struct ack *a;

	for (;;) {
		if (c->handed - c->committed >= c->window)
			return;
		if (!mirror_next(c->mirror, &change))
			break;
		if (!hand_over(f, &change)) {
			mirror_again(c->mirror);
			return;
		}
	}
	TAILQ_FOREACH(a, &c->acks, entry)
	if (a->after == UINT64_MAX)
		a->after = c->handed;
	send_acks(f);
	settle(f);
}

static void
on_committed(struct feed *f, unsigned connection, const char *id, const char *resource)
{
	struct cloudhub *c = f->cloudhub;
	uint64_t number = strtoull(id, NULL, 10);

	(void)connection;
	(void)resource;
	c->committed = MAX(c->committed, number);
	c->window = WINDOW;
	if (f->state >= SYNCING)
		pump(f);
}

/* --- questions ------------------------------------------------------------------------------------ */

static void
send_query(struct feed *f, const char *resource, char id[37])
{
	struct message m = {.operation = OP_QUERY, .resource = resource, .parent = ""};

	feed_send(f, &m, id);
}

static void
ask_list(struct feed *f)
{
	f->cloudhub->list_tick = f->cloudhub->ticks;
	send_query(f, "namespace/servicelist/service", f->cloudhub->list_id);
}

static void
forget(struct asked *q)
{
	q->id[0] = '\0';
	free(q->ns);
	free(q->service);
	q->ns = q->service = NULL;
}

static void
ask(struct feed *f)
{
	struct cloudhub *c = f->cloudhub;
	struct mirror_question q;

	for (size_t i = 0; i < QUERIES; i++) {
		struct asked *a = &c->asked[i];
		auto_free char *resource = NULL;

		if (a->id[0] != '\0')
			continue;
		if (!mirror_ask(c->mirror, &q))
			return;
		if (c->n_silent >= SILENT_QUERIES) {
			mirror_give_up(c->mirror, &q);
			i--;
			continue;
		}
		a->kind = q.kind;
		a->ns = xstrdup(q.ns);
		a->service = xstrdup(q.service);
		a->at_ms = loop_now_ms(f->loop);
		resource = xasprintf(
			"%s/%s/%s", q.ns, q.kind == KUBE_POD ? "podlist" : "endpoints", q.service);
		send_query(f, resource, a->id);
	}
}

static void
give_up(struct feed *f, struct asked *a)
{
	mirror_give_up(f->cloudhub->mirror,
		&(struct mirror_question){.kind = a->kind, .ns = a->ns, .service = a->service});
	forget(a);
}

static void
expire(struct feed *f)
{
	struct cloudhub *c = f->cloudhub;
	uint64_t now = loop_now_ms(f->loop);

	for (size_t i = 0; i < QUERIES; i++) {
		struct asked *a = &c->asked[i];

		if (a->id[0] == '\0' || now - a->at_ms < QUERY_MS)
			continue;
		give_up(f, a);
		if (++c->n_silent == SILENT_QUERIES)
			log_warn("meta",
				"the CloudHub does not answer questions about pods and endpoints: "
				"services wait for what it tells by itself");
	}
}

/* The question that a message answers, by its parent or, as some are told anyway, by what it is about. */
static struct asked *
find_asked(struct cloudhub *c, const struct told *t)
{
	const char *type;

	for (size_t i = 0; i < QUERIES; i++) {
		struct asked *a = &c->asked[i];

		if (a->id[0] == '\0')
			continue;
		if (strcmp(a->id, t->parent) == 0)
			return a;
		type = a->kind == KUBE_POD ? "podlist" : "endpoints";
		if (strcmp(a->ns, t->ns) == 0 && strcmp(a->service, t->name) == 0 &&
			strcmp(type, t->type) == 0)
			return a;
	}
	return NULL;
}

/* --- what is told --------------------------------------------------------------------------------- */

static void
refuse(struct feed *f, const struct told *t, const char *resource, const char *reason)
{
	char id[129], name[1025], parent[] = "";
	struct envelope e = {.id = id, .resource = name, .parent_id = parent};

	snprintf(id, sizeof(id), "%s", t->id);
	snprintf(name, sizeof(name), "%s", resource);
	f->n_errors = 0; /* an object that we cannot read is no reason to hang up */
	feed_send_error(f, &e, reason);
}

static int
take_one(struct feed *f, const struct told *t, size_t type, bool gone, struct err *err)
{
	const struct mirror_object o = {
		.kind = types[type].kind, .ns = t->ns, .name = t->name, .content = t->content};
	const struct mirror_list list = {.kind = o.kind,
		.ns = t->ns,
		.service = o.kind == KUBE_POD ? t->name : NULL,
		.gone = gone,
		.content = t->content};

	if (types[type].list && gone && o.kind != KUBE_POD)
		return err_set(err, EINVAL, "a list of all cannot be deleted");
	if (types[type].list)
		return mirror_listed(f->cloudhub->mirror, &list, err);
	if (gone)
		return mirror_delete(f->cloudhub->mirror, &o, err);
	return mirror_put(f->cloudhub->mirror, &o, err);
}

static bool
is_word(const char *word, const char *one, const char *two, const char *three)
{
	return strcmp(word, one) == 0 || strcmp(word, two) == 0 || strcmp(word, three) == 0;
}

/* A change or an answer. 0, or -errno with the reason. */
static int
take(struct feed *f, const struct told *t, struct err *err)
{
	bool gone = strcmp(t->operation, "delete") == 0;
	struct asked *a = find_asked(f->cloudhub, t);
	size_t type = 0;
	int rc;

	if (!gone && !is_word(t->operation, "insert", "update", "response"))
		return err_set(err, EOPNOTSUPP, "operation is not known here");
	while (type < ARRAY_LEN(types) && strcmp(types[type].type, t->type) != 0)
		type++;
	if (type == ARRAY_LEN(types))
		return 0; /* what an EdgeCore needs: secrets, volumes, ... */
	f->cloudhub->n_silent = a != NULL ? 0 : f->cloudhub->n_silent;
	/* No such thing: a text, or nothing at all. */
	if (a != NULL && !types[type].list &&
		(t->content == NULL || t->content->kind == TREE_SCALAR)) {
		give_up(f, a);
		return 0;
	}
	rc = take_one(f, t, type, gone, err);
	if (a != NULL && rc < 0)
		give_up(f, a);
	else if (a != NULL)
		forget(a);
	return rc;
}

/* "<namespace>/<type>/<name>", sometimes behind "node/<id>/". `copy` is cut up. */
static bool
split(char *copy, struct told *t)
{
	char *rest = copy, *part;

	if (strncmp(rest, "node/", 5) == 0 && (part = strchr(rest + 5, '/')) != NULL &&
		strchr(part + 1, '/') != NULL)
		rest = part + 1;
	t->ns = strsep(&rest, "/");
	t->type = rest != NULL ? strsep(&rest, "/") : "";
	t->name = rest != NULL ? rest : "";
	return *t->ns != '\0' && *t->type != '\0' && *t->name != '\0';
}

static void
on_error(struct feed *f, const struct told *t, const char *resource)
{
	struct asked *a = find_asked(f->cloudhub, t);

	if (a != NULL)
		give_up(f, a);
	else
		log_limited(LOG_LEVEL_WARN, 10, "meta",
			"the CloudHub refused a message resource=\"%.200s\" reason=\"%.200s\"",
			resource, tree_text(t->content, ""));
}

static void
on_message(struct feed *f, const struct tree_node *frame)
{
	const struct tree_node *header = tree_get(frame, "header"),
			       *route = tree_get(frame, "route");
	const char *resource = tree_text(tree_get(route, "resource"), "");
	auto_free char *copy = xstrdup(resource);
	struct told t = {.operation = tree_text(tree_get(route, "operation"), ""),
		.id = tree_text(tree_get(header, "msg_id"), ""),
		.parent = tree_text(tree_get(header, "parent_msg_id"), ""),
		.ns = "",
		.type = "",
		.name = "",
		.content = tree_get(frame, "content")};
	bool whole = split(copy, &t);
	struct err err = {0};
	int rc = 0;

	if (strcmp(t.operation, "keepalive") == 0)
		return;
	if (strcmp(t.operation, "error") == 0) {
		on_error(f, &t, resource);
	} else if (header == NULL || route == NULL) {
		feed_send_error(f, NULL, "message without header or route");
		return;
	} else if (whole) {
		rc = take(f, &t, &err);
	}
	if (rc < 0)
		refuse(f, &t, resource, err.text);
	else if (rc > 0 && err.code != 0)
		log_limited(LOG_LEVEL_WARN, 10, "meta",
			"a list of the CloudHub has items that cannot be read resource=\"%.200s\" "
			"items=%d first=\"%s\"",
			resource, rc, err.text);
	if (rc >= 0 && is_word(t.operation, "insert", "update", "delete"))
		want_ack(f->cloudhub, t.id, resource);
	ask(f);
	pump(f);
}

static void
on_text(struct feed *f, const char *text, size_t len)
{
	struct tree *tree = NULL;
	struct err err = {0};

	if (len == 0 || text[0] != '{')
		err_set(&err, EBADMSG, "not a JSON object");
	else if (tree_parse(&tree, "message", text, len, &err) == 0)
		on_message(f, tree_document(tree, 0));
	if (tree == NULL)
		feed_send_error(f, NULL, err.text);
	tree_free(&tree);
}

/* --- the connection ------------------------------------------------------------------------------- */

/* What the store holds, for the mirror to compare with. */
static void
compare(struct feed *f)
{
	bool all[DIGEST_BUCKETS];
	struct digest_entry *entries;
	size_t n;

	memset(all, true, sizeof(all));
	apply_entries(f->apply, all, &entries, &n);
	mirror_forget_stored(f->cloudhub->mirror);
	for (size_t i = 0; i < n; i++)
		mirror_stored(f->cloudhub->mirror, entries[i].key, entries[i].digest);
	digest_entries_free(&entries, n);
	if (f->state < SYNCING)
		return;
	ask_list(f);
	pump(f);
}

static void
on_open(struct feed *f)
{
	struct cloudhub *c = f->cloudhub;

	for (size_t i = 0; i < QUERIES; i++)
		forget(&c->asked[i]);
	drop_acks(c);
	c->n_silent = c->ticks = 0;
	mirror_begin(c->mirror);
	f->state = SYNCING;
	log_info("meta", "connected to the CloudHub url=%s address=%s node_id=%s",
		places_now(&f->places)->url, f->address, f->node_id);
	feed_remember_addresses(f, NULL);
	timer_start(f->check, TICK_MS, TICK_MS);
	compare(f);
}

static void
ping(struct feed *f)
{
	struct message m = {
		.operation = OP_KEEPALIVE, .resource = "node", .parent = "", .content = "\"ping\""};

	feed_send(f, &m, NULL);
}

static void
on_check(struct feed *f)
{
	struct cloudhub *c = f->cloudhub;
	bool listed = mirror_has_list(c->mirror);

	if (f->conn == NULL)
		return;
	c->ticks++;
	if (c->ticks % PING_TICKS == 0)
		ping(f);
	/* The disk does not take what is handed to it: go on in memory, as far as meta/apply goes. */
	if (c->handed - c->committed >= c->window)
		c->window += WINDOW;
	expire(f);
	if (c->ticks - c->list_tick >= (listed ? LIST_TICKS : LIST_RETRY_TICKS)) {
		if (!listed)
			log_limited(LOG_LEVEL_WARN, 6, "meta",
				"the CloudHub has not told the list of services yet: nothing that "
				"is "
				"stored is deleted before");
		compare(f);
	}
	ask(f);
	pump(f);
}

static uint64_t
on_closed(struct feed *f)
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

/* --- beginning and end ---------------------------------------------------------------------------- */

int
feed_check_id(const char *node_id, struct err *err)
{
	auto_free char *text = NULL;
	char host[256] = "";
	struct tree *t = NULL;
	const char *its;
	size_t len;
	bool same;

	if (file_read(EDGECORE_CONFIG, FILE_MAX, &text, &len) < 0 ||
		tree_parse(&t, EDGECORE_CONFIG, text, len, NULL) < 0)
		return 0; /* no EdgeCore, or none that could start */
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

/* A CloudHub's certificates carry no node's name that we could hold against ours. */
static int
on_begin(struct feed *f, const struct feed_config *config, struct err *err)
{
	struct identity id = {0};
	int rc = read_pem("hub.ca", config->ca, &id.ca, err);

	f->cloudhub = xcalloc(1, sizeof(*f->cloudhub));
	f->cloudhub->mirror = mirror_new();
	f->cloudhub->window = WINDOW;
	TAILQ_INIT(&f->cloudhub->acks);
	if (rc == 0)
		rc = read_pem("hub.cert", config->cert, &id.cert, err);
	if (rc == 0)
		rc = read_pem("hub.key", config->key, &id.key, err);
	if (rc == 0)
		rc = pki_cert_info(id.cert, NULL, &id.not_before, &id.not_after, err);
	if (rc == 0)
		rc = feed_use_identity(f, &id, err);
	identity_fini(&id);
	return rc;
}

static void
on_end(struct feed *f)
{
	if (f->cloudhub == NULL)
		return;
	drop_acks(f->cloudhub);
	for (size_t i = 0; i < QUERIES; i++)
		forget(&f->cloudhub->asked[i]);
	mirror_free(&f->cloudhub->mirror);
	free(f->cloudhub);
	f->cloudhub = NULL;
}

const struct feed_protocol feed_cloudhub = {
	.message_limit = FRAME_MAX,
	.begin = on_begin,
	.end = on_end,
	.opened = on_open,
	.text = on_text,
	.check = on_check,
	.compare = compare,
	.committed = on_committed,
	.closed = on_closed,
};
