#include "hub/share.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "hub/follow.h"
#include "hub/secret.h"

enum { CA, TOKENS, NODES, DOCS };

static const char *const ca_keys[] = {"ca.pem", "ca.key", NULL};
static const char *const token_keys[] = {"tokens.json", NULL};
static const char *const node_keys[] = {"nodes.json", "revoked.json", NULL};

static const struct kind {
	const char *name;
	const char *const *keys;
} kinds[DOCS] = {
	[CA] = {SHARE_CA, ca_keys},
	[TOKENS] = {SHARE_TOKENS, token_keys},
	[NODES] = {SHARE_NODES, node_keys},
};

struct doc {
	struct share *share;
	struct secret *secret; /* NULL: not begun */
	struct timer *retry;
	unsigned failures;
	bool dirty; /* we know what the Secret does not hold */
	bool merged; /* what it holds is in ours */
	bool stale; /* somebody else wrote; it is being read again */
	uint64_t written, failed;
	char problem[400]; /* of the last write or merge, "" */
};

struct share_claim {
	struct share_claim *next;
	char *node;
	struct roll_entry entry;
	bool exclusive;
	bool written; /* is in the write under way */
	share_claimed_fn *claimed;
	void *arg;
};

struct share {
	struct share_config config;
	struct doc docs[DOCS];
	struct certs *certs;
	struct tokens *tokens;
	struct timer *work;
	struct share_claim *claims;
	char *ca_pem, *ca_key; /* in use */
	bool had_ca; /* when it started, under data_dir */
	bool was_synced; /* once, maybe long ago: it knows who was revoked until then */
	bool settled, synced;
};

static void work(void *arg);

/* --- writing -------------------------------------------------------------------------- */

static void
end_claim(struct share *s, struct share_claim **at, int rc, const char *why)
{
	struct share_claim *c = *at;
	share_claimed_fn *claimed = c->claimed;
	void *arg = c->arg;

	(void)s;
	*at = c->next;
	free(c->node);
	free(c);
	claimed(arg, rc, why);
}

/* Its name is ours only when it has been written. */
static void
withdraw(struct share *s, struct share_claim *c)
{
	struct roll *roll = ledger_roll(certs_ledger(s->certs));
	const struct roll_entry *e = roll_find(roll, c->node);

	if (c->exclusive && c->written && e != NULL && strcmp(e->serial, c->entry.serial) == 0)
		roll_remove(roll, c->node);
	c->written = false;
}

/* Into the write that begins; those whose name is gone are answered. */
static void
enter_claims(struct share *s)
{
	struct roll *roll = ledger_roll(certs_ledger(s->certs));

	for (struct share_claim **at = &s->claims; *at != NULL;) {
		struct share_claim *c = *at;

		if (c->exclusive && roll_find(roll, c->node) != NULL) {
			end_claim(s, at, -EEXIST,
				"another replica of the hub has given this name a certificate");
			continue;
		}
		if (c->exclusive)
			roll_add(roll, c->node, &c->entry);
		c->written = true;
		at = &c->next;
	}
}

static void
answer_claims(struct share *s, int rc, const char *why)
{
	if (rc == -ESTALE) {
		for (struct share_claim *c = s->claims; c != NULL; c = c->next)
			withdraw(s, c);
		return;
	}
	for (struct share_claim **at = &s->claims; *at != NULL;) {
		struct share_claim *c = *at;

		if (rc < 0)
			withdraw(s, c);
		if (rc < 0 || c->written)
			end_claim(s, at, c->exclusive ? rc : 0, why);
		else
			at = &c->next;
	}
}

static void
on_written(void *arg, int rc, const char *why)
{
	struct doc *d = arg;
	struct share *s = d->share;

	if (rc == 0) {
		d->failures = 0;
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
		timer_start(d->retry, follow_backoff_ms(d->failures++), 0);
	}
	if (d == &s->docs[NODES])
		answer_claims(s, rc, why);
	timer_start(s->work, 0, 0);
}

static void
write_texts(struct share *s, int i)
{
	struct ledger *ledger = certs_ledger(s->certs);
	auto_buf struct buf one;
	auto_buf struct buf two;
	const char *values[SECRET_KEYS_MAX] = {0};

	buf_init(&one, BUF_UNLIMITED);
	buf_init(&two, BUF_UNLIMITED);
	if (i == TOKENS) {
		tokens_text(s->tokens, &one);
	} else {
		enter_claims(s);
		roll_text(ledger_roll(ledger), &one);
		revoked_text(ledger_revoked(ledger), &two);
	}
	values[0] = buf_str(&one);
	values[1] = buf_str(&two);
	s->docs[i].dirty = false;
	secret_write(s->docs[i].secret, values, on_written, &s->docs[i]);
}

static void
on_retry(void *arg)
{
	work(((struct doc *)arg)->share);
}

/* Whatever is to be written and can be. */
static void
work(void *arg)
{
	struct share *s = arg;
	struct doc *nodes = &s->docs[NODES];

	if (s->claims != NULL && !nodes->merged)
		answer_claims(s, -EAGAIN, "the API server has not been read");
	for (int i = TOKENS; i < DOCS; i++) {
		struct doc *d = &s->docs[i];

		if (d->merged && !d->stale && !secret_writing(d->secret) &&
			(i == NODES && s->claims != NULL ? true
							 : d->dirty && !timer_active(d->retry)))
			write_texts(s, i);
	}
}

/* --- the CA ------------------------------------------------------------------------------ */

static void
settle(struct share *s)
{
	if (s->settled)
		return;
	s->settled = true;
	s->config.ready(s->config.arg);
}

static void
use_ca(struct share *s, const char *pem, const char *key)
{
	char *old_pem = s->ca_pem, *old_key = s->ca_key;

	s->ca_pem = xstrdup(pem);
	s->ca_key = xstrdup(key);
	free(old_pem);
	free(old_key);
}

static void
complain(struct doc *d, const char *what, const struct err *err)
{
	char text[sizeof d->problem];

	snprintf(text, sizeof text, "%s: %.300s", what, err->text);
	if (strcmp(text, d->problem) != 0)
		log_error("kubernetes", "%s", text);
	memcpy(d->problem, text, sizeof text);
}

static void
take_ca(struct share *s)
{
	struct doc *d = &s->docs[CA];
	const char *pem = secret_value(d->secret, 0), *key = secret_value(d->secret, 1);
	struct err err = {0};

	if ((s->settled || s->had_ca) && s->ca_pem != NULL && strcmp(pem, s->ca_pem) == 0 &&
		strcmp(key, s->ca_key) == 0) {
		settle(s);
		return;
	}
	if (pki_pair_check(pem, key, &err) < 0 ||
		(!s->settled && certs_ca_save(s->config.data_dir, pem, key, &err) < 0)) {
		complain(d, "the CA in the Secret " SHARE_CA " (ca.pem, ca.key) cannot be used",
			&err);
		if (s->had_ca)
			settle(s);
		return;
	}
	d->problem[0] = '\0';
	log_info("hub", "using the CA of the Secret %s", SHARE_CA);
	use_ca(s, pem, key);
	if (s->settled)
		s->config.ca_changed(s->config.arg, s->ca_pem, s->ca_key);
	settle(s);
}

static void on_ca(void *arg);

static void
on_ca_written(void *arg, int rc, const char *why)
{
	struct doc *d = arg;
	struct err err = {0};

	if (rc == 0) {
		d->failures = 0;
		d->written++;
		take_ca(d->share);
	} else if (rc != -ESTALE) {
		d->failed++;
		err_set(&err, rc, "%s", why);
		complain(d, "the CA cannot be put into the Secret " SHARE_CA, &err);
		timer_start(d->retry, follow_backoff_ms(d->failures++), 0);
		if (d->share->had_ca)
			settle(d->share);
	}
}

static void
on_ca(void *arg)
{
	struct doc *d = arg;
	struct share *s = d->share;
	const char *values[SECRET_KEYS_MAX];
	struct err err = {0};

	if (!secret_known(d->secret)) {
		if (s->had_ca)
			settle(s);
	} else if (secret_exists(d->secret)) {
		take_ca(s);
	} else if (!secret_writing(d->secret) && !timer_active(d->retry)) {
		/* Made once: the same one is offered again until somebody's is there. */
		if (s->ca_pem == NULL && certs_ca_new(&s->ca_pem, &s->ca_key, &err) < 0) {
			complain(d, "no CA", &err);
			return;
		}
		values[0] = s->ca_pem;
		values[1] = s->ca_key;
		secret_write(d->secret, values, on_ca_written, d);
	}
}

/* --- lists ---------------------------------------------------------------------------------- */

static char *
mark_path(const struct share *s)
{
	return xasprintf("%s/shared", s->config.data_dir);
}

static void
check_synced(struct share *s)
{
	for (int i = TOKENS; i < DOCS; i++) {
		const struct doc *d = &s->docs[i];

		if (!d->merged &&
			!(s->was_synced &&
				(secret_problem(d->secret)[0] != '\0' || d->problem[0] != '\0')))
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
merge(struct share *s, int i, bool *news, bool *lacks, struct err *err)
{
	const struct secret *secret = s->docs[i].secret;
	struct ledger *ledger = certs_ledger(s->certs);
	bool news2 = false, lacks2 = false;
	int rc;

	if (i == TOKENS)
		return tokens_merge(s->tokens, secret_value(secret, 0), (int64_t)(wall_ms() / 1000),
			news, lacks, err);
	rc = ledger_merge(ledger, secret_value(secret, 0), news, lacks, err);
	if (rc == 0)
		rc = revoked_merge(
			ledger_revoked(ledger), secret_value(secret, 1), &news2, &lacks2, err);
	*news |= news2;
	*lacks |= lacks2;
	return rc;
}

static void
on_doc(void *arg)
{
	struct doc *d = arg;
	struct share *s = d->share;
	bool news = false, lacks = false;
	struct err err = {0};
	int i = (int)(d - s->docs);

	if (i == NODES && secret_problem(d->secret)[0] != '\0')
		answer_claims(s, -EAGAIN, secret_problem(d->secret));
	if (secret_known(d->secret)) {
		d->stale = false;
		if (merge(s, i, &news, &lacks, &err) < 0) {
			complain(d, kinds[i].name, &err);
			d->merged = false; /* nothing is written over what is not understood */
		} else {
			d->merged = true;
			d->dirty |= lacks || !secret_exists(d->secret);
			if (d->failures == 0)
				d->problem[0] = '\0';
		}
		if (news && s->synced)
			s->config.news(s->config.arg);
		work(s);
	}
	check_synced(s);
}

/* --- claims ----------------------------------------------------------------------------------- */

void
share_tell_tokens(struct share *s)
{
	s->docs[TOKENS].dirty = true;
	timer_start(s->work, 0, 0);
}

void
share_tell_nodes(struct share *s)
{
	s->docs[NODES].dirty = true;
	timer_start(s->work, 0, 0);
}

struct share_claim *
share_claim(struct share *s, const char *node, const struct roll_entry *entry, bool exclusive,
	share_claimed_fn *claimed, void *arg)
{
	struct share_claim *c = xcalloc(1, sizeof *c);

	c->node = xstrdup(node);
	c->entry = *entry;
	c->exclusive = exclusive;
	c->claimed = claimed;
	c->arg = arg;
	c->next = s->claims;
	s->claims = c;
	if (!exclusive)
		s->docs[NODES].dirty = true;
	timer_start(s->work, 0, 0);
	return c;
}

void
share_unclaim(struct share *s, struct share_claim **claim)
{
	struct share_claim *c = take_ptr(claim), **at = &s->claims;

	if (c == NULL)
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	/* What is being written stays: the name may be given already, and a token made for it helps. */
	free(c->node);
	free(c);
}

/* --- start and stop ----------------------------------------------------------------------------- */

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
		.changed = i == CA ? on_ca : on_doc,
		.arg = &s->docs[i],
	};

	s->docs[i].retry = timer_new(s->config.loop, i == CA ? on_ca : on_retry, &s->docs[i]);
	s->docs[i].secret = secret_start(&config);
}

static void
on_start(void *arg)
{
	settle(arg);
}

struct share *
share_start(const struct share_config *config)
{
	struct share *s = xcalloc(1, sizeof *s);
	auto_free char *mark = NULL;

	s->config = *config;
	s->config.ns = xstrdup(config->ns);
	s->config.data_dir = xstrdup(config->data_dir);
	for (int i = 0; i < DOCS; i++)
		s->docs[i].share = s;
	s->had_ca = certs_ca_load(config->data_dir, &s->ca_pem, &s->ca_key, NULL) == 0;
	mark = mark_path(s);
	s->was_synced = access(mark, F_OK) == 0;
	log_info("hub", "CA, tokens and revocations are shared by Secrets in the namespace %s",
		config->ns);
	if (config->ca) {
		s->work = timer_new(config->loop, work, s);
		start_doc(s, CA);
		return s;
	}
	s->work = timer_new(config->loop, on_start, s);
	timer_start(s->work, 0, 0);
	return s;
}

void
share_begin(struct share *s, struct certs *certs, struct tokens *tokens)
{
	s->certs = certs;
	s->tokens = tokens;
	ledger_share(certs_ledger(certs));
	timer_free(&s->work);
	s->work = timer_new(s->config.loop, work, s);
	start_doc(s, TOKENS);
	start_doc(s, NODES);
}

void
share_stop(struct share **out)
{
	struct share *s = take_ptr(out);

	if (s == NULL)
		return;
	for (int i = 0; i < DOCS; i++) {
		secret_stop(&s->docs[i].secret);
		timer_free(&s->docs[i].retry);
	}
	timer_free(&s->work);
	while (s->claims != NULL) {
		struct share_claim *c = s->claims;

		share_unclaim(s, &c);
	}
	if (s->ca_key != NULL)
		explicit_bzero(s->ca_key, strlen(s->ca_key));
	free(s->ca_pem);
	free(s->ca_key);
	free((void *)(uintptr_t)s->config.ns);
	free((void *)(uintptr_t)s->config.data_dir);
	free(s);
}

/* --- telling ----------------------------------------------------------------------------------- */

const char *
share_waits(const struct share *s)
{
	if (s->synced)
		return "";
	for (int i = 0; i < DOCS; i++) {
		const struct doc *d = &s->docs[i];

		if (d->secret != NULL && secret_problem(d->secret)[0] != '\0')
			return secret_problem(d->secret);
		if (d->problem[0] != '\0')
			return d->problem;
	}
	return "the Secrets of the hub have not been read yet";
}

void
share_state(const struct share *s, struct buf *out)
{
	const char *comma = "";

	buf_printf(out, "{\"namespace\":\"%s\",\"synced\":%s,\"secrets\":[", s->config.ns,
		s->synced ? "true" : "false");
	for (int i = 0; i < DOCS; i++) {
		if (s->docs[i].secret == NULL)
			continue;
		buf_adds(out, comma);
		secret_state(s->docs[i].secret, out);
		comma = ",";
	}
	buf_adds(out, "]}");
}

void
share_metrics(const struct share *s, struct metrics *to)
{
	for (int i = 0; i < DOCS; i++) {
		const struct doc *d = &s->docs[i];
		char label[64];

		if (d->secret == NULL)
			continue;
		metric_label(label, sizeof label, "secret", kinds[i].name);
		metric_gauge(to, "edgeway_hub_secret_trouble",
			"1 while a Secret that replicas share cannot be read or written.", label,
			secret_problem(d->secret)[0] != '\0' || d->problem[0] != '\0');
	}
	for (int i = 0; i < DOCS; i++) {
		const struct doc *d = &s->docs[i];
		char label[64];

		if (d->secret == NULL)
			continue;
		metric_label(label, sizeof label, "secret", kinds[i].name);
		metric_counter(to, "edgeway_hub_secret_writes_total",
			"Times that this replica wrote a Secret.", label, d->written);
	}
}
