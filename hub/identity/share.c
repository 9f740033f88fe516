/* Every write of a Secret contains our whole state, and happens only after the Secret's content was
 * merged into it: so a write that is lost, refused or repeated does no harm. */
#include "hub/identity/share_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "model/json.h"

static const char *const ca_keys[] = {"ca.pem", "ca.key", NULL};
static const char *const token_keys[] = {"tokens.json", NULL};
static const char *const node_keys[] = {"nodes.json", "revoked.json", NULL};
static const char *const archive_keys[] = {"nodes.json", "lists", NULL};

static const struct kind {
	const char *name;
	const char *const *keys;
} kinds[SHARE_DOCS] = {
	[SHARE_DOC_CA] = {SHARE_CA, ca_keys},
	[SHARE_DOC_TOKENS] = {SHARE_TOKENS, token_keys},
	[SHARE_DOC_NODES] = {SHARE_NODES, node_keys},
	[SHARE_DOC_ARCHIVE] = {SHARE_NODES "-1", archive_keys},
	{SHARE_NODES "-2", archive_keys},
	{SHARE_NODES "-3", archive_keys},
	{SHARE_NODES "-4", archive_keys},
	{SHARE_NODES "-5", archive_keys},
	{SHARE_NODES "-6", archive_keys},
	{SHARE_NODES "-7", archive_keys},
	{SHARE_NODES "-8", archive_keys},
	{SHARE_NODES "-9", archive_keys},
	{SHARE_NODES "-10", archive_keys},
	{SHARE_NODES "-11", archive_keys},
	{SHARE_NODES "-12", archive_keys},
	{SHARE_NODES "-13", archive_keys},
	{SHARE_NODES "-14", archive_keys},
	{SHARE_NODES "-15", archive_keys},
	{SHARE_NODES "-16", archive_keys},
};

/* Collects names for so long before they are written into their archive. */
enum { ARCHIVE_PAUSE_MS = 10 * 1000 };

static void share_work(void *arg);
static void start_doc(struct share *s, int i);

/* --- writing -------------------------------------------------------------------------------- */

static struct ledger *
ledger_of(const struct share *s)
{
	return certs_ledger(s->certs);
}

static void
on_written(void *arg, int rc, const char *why)
{
	struct doc *d = arg;
	struct share *s = d->share;

	if (rc == 0) {
		kube_wait_reset(&d->wait);
		d->written++;
		d->problem[0] = '\0';
	} else {
		d->dirty = true;
	}
	d->stale = rc == -ESTALE;
	if (rc < 0 && rc != -ESTALE) {
		d->failed++;
		if (strcmp(d->problem, why) != 0)
			log_limited(LOG_LEVEL_WARN, 20, "kubernetes",
				"what this replica knows is not told to the others: %s", why);
		snprintf(d->problem, sizeof d->problem, "%s", why);
		timer_start(d->retry, kube_wait_ms(&d->wait, NULL), 0);
	}
	if (d == &s->docs[SHARE_DOC_NODES])
		share_claims_answer(&s->claims, ledger_of(s), rc, why);
	timer_start(s->work, 0, 0);
}

/* What was claimed minutes ago leaves the first Secret soon, and makes room. */
static void
refuse_claims(struct share *s, size_t bytes)
{
	snprintf(s->full, sizeof s->full,
		"more nodes join at once than the Secret " SHARE_NODES
		" has room for (%zu bytes of %d): they are let in within minutes, as others move "
		"to "
		"its archives; have fewer join at a time",
		bytes, SECRET_MOST);
	s->full_until_ms = loop_now_ms(s->config.loop) + NAME_ARCHIVE_MOVED_MS;
	log_limited(LOG_LEVEL_WARN, 20, "kubernetes", "%s", s->full);
	share_claims_answer(&s->claims, ledger_of(s), -EAGAIN, s->full);
	share_tell_nodes(s);
}

static void
write_texts(struct share *s, int i)
{
	auto_buf struct buf one;
	auto_buf struct buf two;
	const char *values[SECRET_KEYS_MAX] = {0};

	buf_init(&one, BUF_UNLIMITED);
	buf_init(&two, BUF_UNLIMITED);
	if (i == SHARE_DOC_TOKENS) {
		registry_text(ledger_registry(ledger_of(s)), REGISTRY_TOKENS, true, &one);
	} else if (i >= SHARE_DOC_ARCHIVE) {
		name_archive_archive_text(
			ledger_roll(ledger_of(s)), (unsigned)(i - SHARE_DOC_ARCHIVE), &one);
		name_archive_lists_text(
			ledger_roll(ledger_of(s)), (unsigned)(i - SHARE_DOC_ARCHIVE), &two);
	} else {
		share_claims_enter(&s->claims, ledger_of(s));
		ledger_text(ledger_of(s), &one);
		registry_text(ledger_registry(ledger_of(s)), REGISTRY_REVOKED, true, &two);
	}
	if (i == SHARE_DOC_NODES && s->claims.first != NULL &&
		buf_len(&one) + buf_len(&two) > SECRET_MOST) {
		refuse_claims(s, buf_len(&one) + buf_len(&two));
		return;
	}
	values[0] = buf_str(&one);
	if (i >= SHARE_DOC_NODES)
		values[1] = buf_str(&two);
	s->docs[i].dirty = false;
	secret_write(s->docs[i].secret, values, on_written, &s->docs[i]);
}

static void
on_retry(void *arg)
{
	share_work(((struct doc *)arg)->share);
}

/* Schedules names that no archive contains yet, collected for some seconds, for their archives. */
static void
share_archive(struct share *s)
{
	bool lack[NAME_ARCHIVE_ARCHIVES];

	if (s->docs[SHARE_DOC_ARCHIVE].secret == NULL)
		return;
	name_archive_archives_lack(ledger_roll(ledger_of(s)), lack);
	for (int i = 0; i < NAME_ARCHIVE_ARCHIVES; i++) {
		struct doc *d = &s->docs[SHARE_DOC_ARCHIVE + i];

		if (!lack[i] || d->dirty)
			continue;
		d->dirty = true;
		if (!timer_active(d->retry))
			timer_start(d->retry, ARCHIVE_PAUSE_MS, 0);
	}
}

/* The Secrets whose names count: until a name has left the first Secret, unreadable archives do no
 * harm. */
static int
docs_needed(const struct share *s)
{
	return name_archive_has_archives(ledger_roll(ledger_of(s))) ? SHARE_DOCS
								    : SHARE_DOC_ARCHIVE;
}

/* Returns NULL if every name is known that another replica may have given; else why not. */
static const char *
names_unknown(const struct share *s)
{
	for (int i = SHARE_DOC_NODES, n = docs_needed(s); i < n; i++) {
		const struct doc *d = &s->docs[i];

		if (!d->merged)
			return "the API server has not been read";
		if (i >= SHARE_DOC_ARCHIVE && secret_problem(d->secret)[0] != '\0')
			return secret_problem(d->secret);
	}
	return NULL;
}

static const char *
doc_problem(const struct doc *d)
{
	const struct share *s = d->share;

	if (d->secret != NULL && secret_problem(d->secret)[0] != '\0')
		return secret_problem(d->secret);
	if (d->problem[0] == '\0' && d == &s->docs[SHARE_DOC_NODES] &&
		loop_now_ms(s->config.loop) < s->full_until_ms)
		return s->full;
	return d->problem;
}

/* Are archives wanted, and being read for the first time? */
static bool
archives_are_read(const struct share *s)
{
	const struct name_archive *roll = ledger_roll(ledger_of(s));

	if (!name_archive_wants_archives(roll) || name_archive_has_archives(roll))
		return false;
	for (int i = SHARE_DOC_ARCHIVE; i < SHARE_DOCS; i++)
		if (s->docs[i].secret == NULL || doc_problem(&s->docs[i])[0] != '\0')
			return false;
	return true;
}

/* Writes everything that must and can be written. */
static void
share_work(void *arg)
{
	struct share *s = arg;
	const char *unknown;

	if (s->certs == NULL)
		return;
	unknown = names_unknown(s);
	if (s->claims.first != NULL && unknown != NULL)
		share_claims_answer(&s->claims, ledger_of(s), -EAGAIN, unknown);
	name_archive_set_now(ledger_roll(ledger_of(s)), loop_now_ms(s->config.loop));
	share_archive(s);
	for (int i = SHARE_DOC_TOKENS; i < SHARE_DOCS && s->docs[i].secret != NULL; i++) {
		struct doc *d = &s->docs[i];

		/* What does not fit into the first Secret is about to get its archives. */
		if (i == SHARE_DOC_NODES && archives_are_read(s))
			continue;
		if (d->merged && !d->stale && !secret_writing(d->secret) &&
			(i == SHARE_DOC_NODES && s->claims.first != NULL
					? true
					: d->dirty && !timer_active(d->retry)))
			write_texts(s, i);
	}
}

/* --- lists ---------------------------------------------------------------------------------- */

void
share_settle(struct share *s)
{
	if (s->settled)
		return;
	s->settled = true;
	s->config.ready(s->config.arg);
}

void
share_complain(struct doc *d, const char *what, const struct err *err)
{
	char text[sizeof d->problem];

	snprintf(text, sizeof text, "%s: %.300s", what, err->text);
	if (strcmp(text, d->problem) != 0)
		log_error("kubernetes", "%s", text);
	memcpy(d->problem, text, sizeof text);
}

static char *
mark_path(const struct share *s)
{
	return xasprintf("%s/shared", s->config.data_dir);
}

static void
check_synced(struct share *s)
{
	for (int i = SHARE_DOC_TOKENS, n = docs_needed(s); i < n; i++) {
		/* Archives are not started while the first Secret cannot be parsed. */
		const struct doc *d = &s->docs[s->docs[i].secret != NULL ? i : SHARE_DOC_NODES];

		if (!d->merged && !(s->was_synced && doc_problem(d)[0] != '\0'))
			return;
	}
	if (s->synced)
		return;
	s->synced = true;
	if (!s->was_synced) {
		auto_free char *mark = mark_path(s);

		file_write(mark, "", 0, 0600);
	}
	s->config.synced(s->config.arg);
}

static int
share_merge_archive(struct share *s, unsigned i, struct registry_heard *heard, struct err *err)
{
	const struct secret *secret = s->docs[SHARE_DOC_ARCHIVE + i].secret;
	struct ledger *ledger = ledger_of(s);
	struct registry_heard lists = {0};
	int rc = name_archive_merge_archive(
		ledger_roll(ledger), i, secret_value(secret, 0), heard, err);

	if (rc == 0)
		rc = name_archive_merge_lists(ledger_roll(ledger), i, secret_value(secret, 1),
			(int64_t)(wall_ms() / 1000), &lists, err);
	if (lists.news) {
		registry_keep_later(ledger_registry(ledger), REGISTRY_JOINS);
		registry_keep(ledger_registry(ledger), REGISTRY_REVOKED);
	}
	heard->news |= lists.news;
	heard->lacks |= lists.lacks;
	return rc;
}

static int
share_merge(struct share *s, int i, struct registry_heard *heard, struct err *err)
{
	const char *text = secret_value(s->docs[i].secret, 0);
	struct ledger *ledger = ledger_of(s);
	struct registry *registry = ledger_registry(ledger);
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	int rc;

	name_archive_set_now(ledger_roll(ledger), loop_now_ms(s->config.loop));
	if (i == SHARE_DOC_TOKENS)
		return registry_merge(registry, REGISTRY_TOKENS, text, now_s, heard, err);
	if (i >= SHARE_DOC_ARCHIVE)
		rc = share_merge_archive(s, (unsigned)(i - SHARE_DOC_ARCHIVE), heard, err);
	else if ((rc = ledger_merge(ledger, text, heard, err)) == 0)
		rc = registry_merge(registry, REGISTRY_REVOKED, secret_value(s->docs[i].secret, 1),
			now_s, heard, err);
	if (rc == 0)
		ledger_drop_forgotten(ledger);
	return rc;
}

/* With many names: reads all archives, and uses them once all have been read. */
static void
tend_archives(struct share *s)
{
	struct name_archive *roll = ledger_roll(ledger_of(s));
	bool all = true;

	if (!name_archive_wants_archives(roll))
		return;
	for (int i = SHARE_DOC_ARCHIVE; i < SHARE_DOCS; i++) {
		if (s->docs[i].secret == NULL)
			start_doc(s, i);
		all &= s->docs[i].merged;
	}
	if (all && !name_archive_has_archives(roll)) {
		name_archive_begin_archives(roll);
		s->docs[SHARE_DOC_NODES].dirty = true;
	}
}

static void
on_doc(void *arg)
{
	struct doc *d = arg;
	struct share *s = d->share;
	struct registry_heard heard = {0};
	struct err err = {0};
	int i = (int)(d - s->docs);

	if (i == SHARE_DOC_NODES && secret_problem(d->secret)[0] != '\0')
		share_claims_answer(&s->claims, ledger_of(s), -EAGAIN, secret_problem(d->secret));
	if (secret_known(d->secret)) {
		d->stale = false;
		if (share_merge(s, i, &heard, &err) < 0) {
			share_complain(d, kinds[i].name, &err);
			d->merged = false; /* never overwrite content that was not understood */
		} else {
			d->merged = true;
			if (i < SHARE_DOC_ARCHIVE || !secret_exists(d->secret))
				d->dirty |= heard.lacks || !secret_exists(d->secret);
			else if (!heard.lacks) /* else share_archive() finds what it lacks */
				d->dirty = false;
			if (i >= SHARE_DOC_NODES)
				tend_archives(s);
			/* the joins of expired ones were not merged */
			if (ledger_end_tokens(ledger_of(s), (int64_t)(wall_ms() / 1000)))
				s->docs[SHARE_DOC_TOKENS].dirty = true;
			if (d->wait.failures == 0)
				d->problem[0] = '\0';
		}
		if (heard.news && s->synced)
			s->config.news(s->config.arg);
		share_work(s);
	}
	check_synced(s);
}

/* --- claims --------------------------------------------------------------------------------- */

void
share_tell_tokens(struct share *s)
{
	s->docs[SHARE_DOC_TOKENS].dirty = true;
	timer_start(s->work, 0, 0);
}

void
share_tell_nodes(struct share *s)
{
	s->docs[SHARE_DOC_NODES].dirty = true;
	timer_start(s->work, 0, 0);
}

struct share_claim *
share_claim(struct share *s, const struct share_wish *wish, share_claimed_fn *claimed, void *arg)
{
	struct share_claim *c = share_claims_add(&s->claims, wish, claimed, arg);

	if (wish->recorded)
		s->docs[SHARE_DOC_NODES].dirty = true;
	timer_start(s->work, 0, 0);
	return c;
}

bool
share_claim_pends(const struct share *s, const char *node)
{
	return share_claims_pend(&s->claims, node);
}

void
share_unclaim(struct share *s, struct share_claim **claim)
{
	share_claims_remove(&s->claims, claim);
}

/* --- start and stop ------------------------------------------------------------------------- */

static void
start_doc(struct share *s, int i)
{
	const struct secret_config config = {
		.loop = s->config.loop,
		.api = s->config.api,
		.ns = s->config.ns,
		.name = kinds[i].name,
		.type = "Opaque",
		.keys = kinds[i].keys,
		.changed = i == SHARE_DOC_CA ? share_on_ca : on_doc,
		.arg = &s->docs[i],
	};

	s->docs[i].retry =
		timer_new(s->config.loop, i == SHARE_DOC_CA ? share_on_ca : on_retry, &s->docs[i]);
	s->docs[i].secret = secret_start(&config);
}

static void
on_start(void *arg)
{
	share_settle(arg);
}

struct share *
share_start(const struct share_config *config)
{
	struct share *s = xcalloc(1, sizeof *s);
	auto_free char *mark = NULL;

	s->config = *config;
	s->config.ns = xstrdup(config->ns);
	s->config.data_dir = xstrdup(config->data_dir);
	for (int i = 0; i < SHARE_DOCS; i++)
		s->docs[i].share = s;
	s->had_ca = config->ca && share_load_ca(s);
	mark = mark_path(s);
	s->was_synced = access(mark, F_OK) == 0;
	log_info("hub", "CA, tokens and revocations are shared by Secrets in the namespace %s",
		config->ns);
	if (config->ca) {
		s->work = timer_new(config->loop, share_work, s);
		start_doc(s, SHARE_DOC_CA);
		return s;
	}
	s->work = timer_new(config->loop, on_start, s);
	timer_start(s->work, 0, 0);
	return s;
}

void
share_begin(struct share *s, struct certs *certs)
{
	s->certs = certs;
	ledger_share(certs_ledger(certs));
	timer_free(&s->work);
	s->work = timer_new(s->config.loop, share_work, s);
	start_doc(s, SHARE_DOC_TOKENS);
	start_doc(s, SHARE_DOC_NODES);
}

void
share_stop(struct share **out)
{
	struct share *s = take_ptr(out);

	if (s == NULL)
		return;
	for (int i = 0; i < SHARE_DOCS; i++) {
		secret_stop(&s->docs[i].secret);
		timer_free(&s->docs[i].retry);
	}
	timer_free(&s->work);
	share_claims_fini(&s->claims);
	if (s->ca_key != NULL)
		explicit_bzero(s->ca_key, strlen(s->ca_key));
	free(s->ca_pem);
	free(s->ca_key);
	free((void *)(uintptr_t)s->config.ns);
	free((void *)(uintptr_t)s->config.data_dir);
	free(s);
}

/* --- telling -------------------------------------------------------------------------------- */

const char *
share_problem(const struct share *s)
{
	const char *problem = "";

	for (int i = 0; i < SHARE_DOCS && problem[0] == '\0'; i++)
		problem = doc_problem(&s->docs[i]);
	return problem;
}

const char *
share_waits(const struct share *s)
{
	if (s->synced)
		return "";
	return share_problem(s)[0] != '\0' ? share_problem(s)
					   : "the Secrets of the hub have not been read yet";
}

void
share_state(const struct share *s, struct buf *out)
{
	const char *comma = "";

	buf_printf(out, "{\"namespace\":\"%s\",\"synced\":%s,\"problem\":", s->config.ns,
		s->synced ? "true" : "false");
	json_add_text(out, share_problem(s));
	buf_adds(out, ",\"secrets\":[");
	for (int i = 0; i < SHARE_DOCS; i++) {
		if (s->docs[i].secret == NULL)
			continue;
		buf_adds(out, comma);
		secret_state(s->docs[i].secret, doc_problem(&s->docs[i]), out);
		comma = ",";
	}
	buf_adds(out, "]}");
}

void
share_metrics(const struct share *s, struct metrics *to)
{
	for (int i = 0; i < SHARE_DOCS; i++) {
		const struct doc *d = &s->docs[i];
		char label[64];

		if (d->secret == NULL)
			continue;
		metric_label(label, sizeof label, "secret", kinds[i].name);
		metric_gauge(to, "edgeway_hub_secret_trouble",
			"1 while a Secret that replicas share cannot be read or written.", label,
			doc_problem(d)[0] != '\0');
	}
	for (int i = 0; i < SHARE_DOCS; i++) {
		const struct doc *d = &s->docs[i];
		char label[64];

		if (d->secret == NULL)
			continue;
		metric_label(label, sizeof label, "secret", kinds[i].name);
		metric_counter(to, "edgeway_hub_secret_writes_total",
			"Times that this replica wrote a Secret.", label, d->written);
	}
}
