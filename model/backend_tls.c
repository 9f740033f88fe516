#include "model/backend_tls.h"

#include <errno.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/tls/pki.h"
#include "base/tls/tls_session.h"
#include "model/check.h"
#include "model/json.h"

struct backend_tls *
backend_tls_new(void)
{
	struct backend_tls *t = xcalloc(1, sizeof *t);

	atomic_init(&t->refs, 1);
	t->hosts = xcalloc(1, sizeof *t->hosts);
	t->uris = xcalloc(1, sizeof *t->uris);
	return t;
}

static size_t
backend_tls_count(char *const *list)
{
	size_t n = 0;

	while (list[n] != NULL)
		n++;
	return n;
}

void
backend_tls_add(char ***list, const char *name)
{
	size_t n = backend_tls_count(*list);

	*list = xrealloc(*list, (n + 2) * sizeof **list);
	(*list)[n] = xstrdup(name);
	(*list)[n + 1] = NULL;
}

static void
backend_tls_list_free(char **list)
{
	for (char **at = list; *at != NULL; at++)
		free(*at);
	free(list);
}

void
backend_tls_seal(struct backend_tls *t)
{
	char **const texts[] = {&t->policy, &t->host, &t->ca, &t->wrong};
	auto_buf struct buf json;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (*texts[i] == NULL)
			*texts[i] = xstrdup("");
	if (t->hosts[0] == NULL && t->uris[0] == NULL && *t->host != '\0')
		backend_tls_add(&t->hosts, t->host);
	buf_init(&json, BUF_UNLIMITED);
	backend_tls_build(&json, t);
	t->names.hosts = (const char *const *)t->hosts;
	t->names.uris = (const char *const *)t->uris;
	t->digest = hash64(buf_at(&json), buf_len(&json), 0);
}

struct backend_tls *
backend_tls_ref(struct backend_tls *t)
{
	if (t != NULL)
		atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
	return t;
}

struct backend_tls **
backend_tls_list_ref(struct backend_tls *const *list, size_t n)
{
	struct backend_tls **copy = n > 0 ? xcalloc(n, sizeof(struct backend_tls *)) : NULL;

	for (size_t i = 0; i < n; i++)
		copy[i] = backend_tls_ref(list[i]);
	return copy;
}

void
backend_tls_unref(struct backend_tls **out)
{
	struct backend_tls *t = take_ptr(out);
	struct ssl_ctx_st *ctx;

	if (t == NULL || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
		return;
	ctx = atomic_load(&t->ctx);
	pki_ctx_free(&ctx);
	free(t->policy);
	free(t->host);
	free(t->ca);
	free(t->wrong);
	backend_tls_list_free(t->hosts);
	backend_tls_list_free(t->uris);
	free(t);
}

/* Two workers may make one at the same time: the first is kept. */
struct ssl_ctx_st *
backend_tls_ctx(struct backend_tls *t, struct err *err)
{
	struct ssl_ctx_st *ctx = atomic_load_explicit(&t->ctx, memory_order_acquire), *made = NULL;

	if (ctx != NULL)
		return ctx;
	if (*t->wrong != '\0' || (t->hosts[0] == NULL && t->uris[0] == NULL)) {
		err_set(err, EINVAL, "%s", *t->wrong != '\0' ? t->wrong : "it names no host");
		return NULL;
	}
	if (tls_backend_ctx(*t->ca != '\0' ? t->ca : NULL, &made, err) < 0)
		return NULL;
	if (!atomic_compare_exchange_strong(&t->ctx, &ctx, made)) {
		pki_ctx_free(&made);
		return ctx;
	}
	return made;
}

/* --- in a view ------------------------------------------------------------------------------ */

static void
backend_tls_add_member(struct buf *out, const char *key, const char *text)
{
	if (*text == '\0')
		return;
	buf_printf(out, ",\"%s\":", key);
	json_add_text(out, text);
}

static void
backend_tls_add_list(struct buf *out, const char *key, char *const *list)
{
	if (*list == NULL)
		return;
	buf_printf(out, ",\"%s\":", key);
	for (char *const *at = list; *at != NULL; at++) {
		buf_adds(out, at == list ? "[" : ",");
		json_add_text(out, *at);
	}
	buf_adds(out, "]");
}

void
backend_tls_build(struct buf *out, const struct backend_tls *t)
{
	buf_adds(out, "{\"policy\":");
	json_add_text(out, t->policy);
	backend_tls_add_member(out, "host", t->host);
	backend_tls_add_member(out, "ca", t->ca);
	backend_tls_add_list(out, "hosts", t->hosts);
	backend_tls_add_list(out, "uris", t->uris);
	backend_tls_add_member(out, "wrong", t->wrong);
	buf_adds(out, "}");
}

struct backend_tls_names {
	char ***list;
	size_t n, max;
};

static void
backend_tls_parse_name(struct json *j, void *to)
{
	struct backend_tls_names *names = to;
	auto_free char *text = NULL;

	if (names->n++ == BACKEND_TLS_NAMES_MAX)
		json_wrong(j, "more than %d names", BACKEND_TLS_NAMES_MAX);
	else if (json_text(j, &text, names->max))
		backend_tls_add(names->list, text);
}

static void
backend_tls_parse_hosts(struct json *j, void *to)
{
	struct backend_tls *t = to;

	json_list(j, backend_tls_parse_name,
		&(struct backend_tls_names){&t->hosts, 0, MESH_NODE_MAX});
}

static void
backend_tls_parse_uris(struct json *j, void *to)
{
	struct backend_tls *t = to;

	json_list(
		j, backend_tls_parse_name, &(struct backend_tls_names){&t->uris, 0, MESH_NODE_MAX});
}

struct backend_tls *
backend_tls_parse(struct json *j)
{
	static const struct field fields[] = {
		{"policy", FIELD_TEXT, offsetof(struct backend_tls, policy), ROUTE_NAMESPACED_MAX,
			NULL, NULL},
		{"host", FIELD_TEXT, offsetof(struct backend_tls, host), MESH_NODE_MAX,
			check_subdomain_or_empty, NULL},
		{"ca", FIELD_TEXT, offsetof(struct backend_tls, ca), BACKEND_TLS_CA_MAX, NULL,
			NULL},
		{"hosts", FIELD_CUSTOM, 0, 0, NULL, backend_tls_parse_hosts},
		{"uris", FIELD_CUSTOM, 0, 0, NULL, backend_tls_parse_uris},
		{"wrong", FIELD_TEXT, offsetof(struct backend_tls, wrong), BACKEND_TLS_WRONG_MAX,
			NULL, NULL},
	};
	struct backend_tls *t = backend_tls_new();

	json_fields(j, fields, ARRAY_LEN(fields), t);
	if (!json_ok(j))
		backend_tls_unref(&t);
	else
		backend_tls_seal(t);
	return t;
}
