#include "bench/agents.h"

#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"
#include "model/bundle.h"
#include "model/view.h"

/* --- data of a node ------------------------------------------------------------------------- */

static struct held *
place(struct node *n, const char *key)
{
	size_t i = hash64(key, strlen(key), 0) & (n->room - 1);

	while (n->held[i].key != NULL && strcmp(n->held[i].key, key) != 0)
		i = (i + 1) & (n->room - 1);
	return &n->held[i];
}

/* Keys are shared by all nodes and never freed. */
static const char *
intern(const char *key)
{
	static struct node all;

	if (all.n_held * 2 >= all.room) {
		struct node bigger = {.room = MAX(all.room * 2, (size_t)1024)};

		bigger.held = xcalloc(bigger.room, sizeof *bigger.held);
		for (size_t i = 0; i < all.room; i++)
			if (all.held[i].key != NULL)
				*place(&bigger, all.held[i].key) = all.held[i];
		free(all.held);
		all.held = bigger.held;
		all.room = bigger.room;
	}
	if (place(&all, key)->key == NULL) {
		place(&all, key)->key = xstrdup(key);
		all.n_held++;
	}
	return place(&all, key)->key;
}

/* digest 0: removed; its slot stays. */
static void
hold(struct node *n, const char *key, uint64_t digest)
{
	struct held *h;

	if (n->n_held * 2 >= n->room) {
		struct node old = *n;

		n->room = MAX(old.room * 2, (size_t)64);
		n->held = xcalloc(n->room, sizeof *n->held);
		for (size_t i = 0; i < old.room; i++)
			if (old.held[i].key != NULL)
				*place(n, old.held[i].key) = old.held[i];
		free(old.held);
	}
	h = place(n, key);
	if (h->key == NULL) {
		h->key = intern(key);
		n->n_held++;
	}
	if (h->digest != 0)
		digest_toggle(&n->digests, key, strlen(key), h->digest);
	if (digest != 0)
		digest_toggle(&n->digests, key, strlen(key), digest);
	h->digest = digest;
}

/* --- sending -------------------------------------------------------------------------------- */

void
flush(struct node *n)
{
	while (buf_len(&n->out) > 0) {
		int len = SSL_write(
			n->ssl, buf_at(&n->out), (int)MIN(buf_len(&n->out), (size_t)16384));

		if (len <= 0)
			break;
		buf_consume(&n->out, (size_t)len);
	}
	interest(n);
}

/* RFC 6455 section 5.2; a mask of zeros is allowed. */
void
send_frame(struct node *n, unsigned opcode, const char *data, size_t len)
{
	unsigned char head[14] = {(unsigned char)(0x80 | opcode)};
	size_t at = 2;

	if (len < 126) {
		head[1] = (unsigned char)(0x80 | len);
	} else if (len < 65536) {
		head[1] = 0x80 | 126;
		head[2] = (unsigned char)(len >> 8);
		head[3] = (unsigned char)len;
		at = 4;
	} else {
		head[1] = 0x80 | 127;
		for (int i = 0; i < 8; i++)
			head[2 + i] = (unsigned char)(len >> (56 - 8 * i));
		at = 10;
	}
	buf_add(&n->out, head, at + 4);
	buf_add(&n->out, data, len);
}

void
send_lines(struct node *n)
{
	auto_buf struct buf b;
	const char *line;
	size_t len;

	buf_init(&b, BUF_UNLIMITED);
	if (!w.plain && buf_len(&n->lines) >= BUNDLE_LEAST_BYTES) {
		bundle_build(&b, "edgeway-agent", NULL, &n->lines);
		send_frame(n, 1, buf_at(&b), buf_len(&b));
		buf_consume(&n->lines, buf_len(&n->lines));
	}
	while ((line = bundle_next(&n->lines, &len)) != NULL)
		send_frame(n, 1, line, len);
}

static void
send_message(struct node *n, enum operation op, const char *resource, const char *parent,
	struct buf *content)
{
	const struct saying say = {.source = "edgeway-agent",
		.operation = op,
		.resource = resource,
		.parent = parent,
		.content = content != NULL ? buf_str(content) : NULL,
		.content_len = content != NULL ? buf_len(content) : 0};
	char id[37];

	envelope_new_id(id);
	envelope_say(&n->lines, &say, id);
	buf_adds(&n->lines, "\n");
}

void
send_buckets(struct node *n)
{
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	digests_build(&c, &n->digests);
	send_message(n, OP_QUERY, "digest/buckets", "", &c);
}

static void
send_services(struct node *n, const bool want[DIGEST_BUCKETS])
{
	struct digest_entry *list = xcalloc(n->n_held + 1, sizeof *list);
	auto_buf struct buf c;
	size_t count = 0;

	buf_init(&c, BUF_UNLIMITED);
	for (size_t i = 0; i < n->room; i++) {
		const struct held *h = &n->held[i];

		if (h->digest != 0 && want[digest_bucket(h->key, strlen(h->key))])
			list[count++] = (struct digest_entry){(char *)(uintptr_t)h->key, h->digest};
	}
	digest_entries_build(&c, want, list, count);
	free(list);
	send_message(n, OP_QUERY, "digest/services", "", &c);
}

/* --- messages of the hub -------------------------------------------------------------------- */

/* Finds a text member in messages of our own hub; full parsing would cost more than the hub
 * itself. */
static char *
member(const char *text, const char *name, char to[512])
{
	const char *at = strstr(text, name);
	size_t len = at != NULL ? strcspn(at + strlen(name), "\"") : 0;

	snprintf(to, 512, "%.*s", (int)len, at != NULL ? at + strlen(name) : "");
	return to;
}

static void
on_change(struct node *n, bool gone, char *resource, const char *content, size_t len)
{
	char key[512], *slash = strstr(resource, "/service/");

	snprintf(key, sizeof key, "%.*s/%s", (int)(slash - resource), resource, slash + 9);
	hold(n, key, gone ? 0 : view_digest(content, len));
	n->changes++;
	if (n->changes == w.wanted)
		n->reached = now();
}

static void
on_answer(struct node *n, const char *content, size_t len)
{
	bool want[DIGEST_BUCKETS] = {false};
	struct err err;

	if (strstr(content, "\"synced\":true") != NULL) {
		if (!n->synced && !w.storm)
			w.n_connecting--;
		n->synced = true;
		n->in_step = n->asked_check;
		n->asked_check = false;
		return;
	}
	n->asked_check = false;
	if (digest_want_parse(want, content, len, &err) == 0)
		send_services(n, want);
}

static void
on_bundle(struct node *n, const char *id, const char *content, size_t len)
{
	auto_buf struct buf lines;
	struct envelope e = {.content = (char *)(uintptr_t)content, .content_len = len};
	struct err err = {0};
	const char *line;

	if (bundle_open(&lines, &e, &err) < 0)
		die(err.text);
	n->bundle = id;
	while ((line = bundle_next(&lines, &len)) != NULL)
		on_message(n, line, len);
	n->bundle = NULL;
}

void
on_message(struct node *n, const char *text, size_t len)
{
	char id[512], operation[512], resource[512];
	const char *content = strstr(text, "\"content\":");
	size_t content_len = 0;

	member(text, "\"msg_id\":\"", id);
	if (id[0] == '\0' && n->bundle != NULL)
		snprintf(id, sizeof id, "%s", n->bundle);
	member(text, "\"operation\":\"", operation);
	member(text, "\"resource\":\"", resource);
	if (content != NULL) {
		content += 10;
		content_len = len - (size_t)(content - text) - 1;
	}
	if (strncmp(resource, "bundle/", 7) == 0) {
		on_bundle(n, id, content, content_len);
	} else if (strcmp(resource, "node/hello") == 0) {
		send_buckets(n);
	} else if (strcmp(operation, "response") == 0) {
		on_answer(n, content, content_len);
	} else if (strcmp(operation, "update") == 0 || strcmp(operation, "delete") == 0) {
		on_change(n, operation[0] == 'd', resource, content, content_len);
		send_message(n, OP_RESPONSE, resource, id, NULL);
	} else {
		fprintf(stderr, "%s: %.300s\n", n->name, text);
	}
}
