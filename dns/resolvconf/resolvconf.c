#include "dns/resolvconf/resolvconf.h"

#include <errno.h>
#include <string.h>

#include "base/core/log.h"
#include "dns/resolvconf/resolvfile.h"
#include "dns/resolvconf/resolvkeep.h"
#include "dns/resolvconf/resolvtext.h"

#define KEEP_KEY "resolv.conf"

enum {
	RESOLVED_PROXY = 0x7f000036, /* 127.0.0.54 */
	UPSTREAMS_READ = 16,
};

struct resolvconf {
	char *path, *domain, *resolved;
	char *unknown; /* skipped nameservers that were last logged; NULL: none yet */
	bool manage, written;
	bool inherited; /* a predecessor had written it */
	uint32_t address; /* of the nameserver in it */
	const char *trouble; /* "", or why the file is not ours although it should be */
	bool unkept; /* the trouble is that its original cannot be saved */
	bool due; /* the original has changed, and the file could not be written since */
	struct dns_keep keep;
	struct resolv_original original;
	struct replaced replaced;
};

static int
resolvconf_cannot(const struct resolvconf *rc, int code, const char *what, struct err *err)
{
	return err_set(err, code, "cannot %s %s: %s", what, rc->path,
		code == -ENOTSUP ? "it is no regular file" : strerror(code < 0 ? -code : code));
}

/* --- concurrent writers --------------------------------------------------------------------- */

/* A program wrote into the file after we had read it: that text is the original, and must be merged
 * again. */
static bool
take_late_words(struct resolvconf *rc)
{
	struct replaced *r = &rc->replaced;
	auto_free char *text = NULL;
	size_t len;

	if (r->fd < 0 || replaced_read(r->fd, &text, &len) < 0 ||
		(len == r->len && memcmp(text, r->text, len) == 0))
		return false;
	free(r->text);
	r->text = xmemdup(text, len);
	r->len = len;
	free(rc->original.text);
	rc->original.text = resolvtext_strip(text, len, &rc->original.len);
	return true;
}

/* The same list is logged only once. */
static void
tell_unknown(struct resolvconf *rc)
{
	char *unknown = resolvtext_unknown(rc->original.text, rc->original.len);

	if (unknown[0] != '\0' && (rc->unknown == NULL || strcmp(rc->unknown, unknown) != 0))
		log_warn("dns",
			"nameservers of resolv.conf are skipped: they are no plain addresses "
			"path=%s "
			"nameservers=%s",
			rc->path, unknown);
	free(rc->unknown);
	rc->unknown = unknown;
}

char *
resolvconf_target(const struct resolvconf *rc)
{
	const struct resolv_original *o = &rc->original;
	const char *slash = strrchr(rc->path, '/');

	if (o->kind != RESOLV_LINK)
		return NULL;
	return o->link[0] == '/' || slash == NULL
		? xstrdup(o->link)
		: xasprintf("%.*s/%s", (int)(slash - rc->path), rc->path, o->link);
}

/* The path was a link: what its target says now, and did not when the link was replaced (a manager
 * of resolv.conf writes it anew with each lease, or for the first time after our start). */
static bool
take_link_target(struct resolvconf *rc)
{
	struct resolv_original *o = &rc->original;
	auto_free char *path = resolvconf_target(rc), *text = NULL, *bare = NULL;
	size_t len;

	if (path == NULL || file_read(path, RESOLVTEXT_MAX, &text, &len) < 0)
		return false;
	bare = resolvtext_strip(text, len, &len);
	if (len == o->len && memcmp(bare, o->text, len) == 0)
		return false;
	free(o->text);
	o->text = take_ptr(&bare);
	o->len = len;
	tell_unknown(rc);
	return true;
}

bool
resolvconf_dangles(const struct resolvconf *rc)
{
	return rc->original.kind == RESOLV_LINK && rc->original.len == 0;
}

/* --- restoring the original ----------------------------------------------------------------- */

/* Undoes what `o` describes, or what our marks in the file show. Returns 1 if there was something
 * to undo. */
static int
resolvconf_undo(struct resolvconf *rc, const struct resolv_original *o, struct err *err)
{
	struct resolv_original now;
	int code = resolvfile_read(rc->path, &now), did = 0;

	if (code < 0)
		return resolvconf_cannot(rc, code, "read", err);
	if (resolvfile_is_ours(o, &now)) {
		code = resolvfile_put_back(rc->path, o);
		did = 1;
	} else if (now.kind == RESOLV_FILE && resolvtext_is_ours(now.text, now.len)) {
		size_t len;
		auto_free char *text = resolvtext_strip(now.text, now.len, &len);

		log_warn("dns", "resolv.conf is not as we wrote it, only our lines go path=%s",
			rc->path);
		code = resolvfile_replace(rc->path, &now, text, len);
		did = 1;
	}
	resolv_original_fini(&now);
	if (code < 0)
		return resolvconf_cannot(rc, code, "put back", err);
	if (rc->keep.del != NULL)
		rc->keep.del(rc->keep.arg, KEEP_KEY);
	return did;
}

static void
read_kept(const struct resolvconf *rc, struct resolv_original *o)
{
	auto_free char *data = NULL;
	size_t len;

	if (rc->keep.get != NULL && rc->keep.get(rc->keep.arg, KEEP_KEY, &data, &len) == 0 &&
		resolv_original_unpack(o, data, len) < 0)
		log_warn("dns",
			"the kept original of resolv.conf is damaged, our marks in it are used "
			"path=%s",
			rc->path);
}

/* Takes over a predecessor's lines. False: they are not there, or not as it wrote them. */
static bool
resolvconf_succeed(struct resolvconf *rc)
{
	struct resolv_original o = {0}, now;

	read_kept(rc, &o);
	if (o.ours != NULL && resolvfile_read(rc->path, &now) == 0) {
		rc->written = resolvfile_is_whole(&o, &now);
		resolv_original_fini(&now);
	}
	if (rc->written)
		rc->original = o;
	else
		resolv_original_fini(&o);
	return rc->written;
}

/* Undoes what a killed run left. Returns 1 if there was something. */
static int
resolvconf_undo_kept(struct resolvconf *rc, struct err *err)
{
	struct resolv_original o = {0};
	int code;

	read_kept(rc, &o);
	code = resolvconf_undo(rc, &o, err);
	if (code == 1)
		log_info("dns", "put back resolv.conf that an earlier run left path=%s", rc->path);
	resolv_original_fini(&o);
	return code;
}

int
resolvconf_recover(const char *path, const struct dns_keep *keep, struct err *err)
{
	struct resolvconf rc = {.path = xstrdup(path), .keep = *keep};
	int code = resolvconf_undo_kept(&rc, err);

	free(rc.path);
	return code;
}

/* --- entry points --------------------------------------------------------------------------- */

/* Takes the file's current content, without our lines, as the original. */
static int
resolvconf_adopt(struct resolvconf *rc, struct err *err)
{
	struct resolv_original now;
	int code = resolvfile_read(rc->path, &now);

	if (code < 0)
		return resolvconf_cannot(rc, code, "read", err);
	if (resolvtext_is_ours(now.text, now.len)) {
		char *text = resolvtext_strip(now.text, now.len, &now.len);

		free(now.text);
		now.text = text;
	}
	resolv_original_fini(&rc->original);
	rc->original = now;
	tell_unknown(rc);
	return 0;
}

int
resolvconf_open(struct resolvconf **out, const struct resolvconf_config *config, struct err *err)
{
	struct resolvconf *rc = xcalloc(1, sizeof *rc);
	struct err why;
	int code;

	rc->path = xstrdup(config->path);
	rc->domain = xstrdup(config->cluster_domain);
	rc->resolved = config->resolved != NULL ? xstrdup(config->resolved) : NULL;
	rc->manage = config->manage;
	rc->keep = config->keep;
	rc->trouble = "";
	rc->replaced.fd = -1;
	rc->inherited = config->stay && resolvconf_succeed(rc);
	if (rc->inherited) {
		*out = rc;
		return 0;
	}
	if (resolvconf_undo_kept(rc, &why) < 0)
		log_warn("dns", "an earlier run's lines stay for now: %s", why.text);
	code = resolvconf_adopt(rc, &why);
	if (code < 0 && config->manage) {
		err_set(err, code, "%s (dns.manageResolvConf: false leaves it alone)", why.text);
		resolvconf_close(&rc);
		return code;
	}
	if (code < 0)
		rc->original.text = xstrdup("");
	if (rc->original.kind == RESOLV_MISSING)
		log_warn("dns", "there is no resolv.conf path=%s", rc->path);
	*out = rc;
	return 0;
}

void
resolvconf_close(struct resolvconf **out)
{
	struct resolvconf *rc = take_ptr(out);

	if (rc == NULL)
		return;
	resolv_original_fini(&rc->original);
	replaced_fini(&rc->replaced);
	free(rc->path);
	free(rc->domain);
	free(rc->resolved);
	free(rc->unknown);
	free(rc);
}

static int
keep_original(struct resolvconf *rc, const struct resolv_original *o, struct err *err)
{
	auto_free char *data = NULL;
	size_t len;
	int code;

	if (rc->keep.put == NULL)
		return 0;
	data = resolv_original_pack(o, &len);
	code = rc->keep.put(rc->keep.arg, KEEP_KEY, data, len);
	rc->unkept = code < 0;
	if (code < 0)
		return err_set(err, code, "cannot keep the original of %s, it is left alone: %s",
			rc->path, strerror(-code));
	return 0;
}

/* Another program may have written the file since we looked: then its text is the original. Returns
 * 1 if all of the file is ours. */
static int
look_again(struct resolvconf *rc, struct err *err)
{
	struct resolv_original now;
	int code;
	bool ours, whole;

	if (!rc->written)
		return resolvconf_adopt(rc, err);
	code = resolvfile_read(rc->path, &now);
	if (code < 0)
		return resolvconf_cannot(rc, code, "read", err);
	/* a program that deletes the file says nothing about the nameservers */
	ours = resolvfile_is_ours(&rc->original, &now) || now.kind == RESOLV_MISSING;
	whole = resolvfile_is_whole(&rc->original, &now);
	resolv_original_fini(&now);
	return ours ? whole : resolvconf_adopt(rc, err);
}

static int
resolvconf_replace(struct resolvconf *rc, const struct resolv_original *o, struct replaced *before)
{
	int code = resolvfile_replace(rc->path, o, o->ours, o->ours_len);

	if (code < 0)
		return code;
	replaced_fini(&rc->replaced);
	if (before->fd >= 0 && !replaced_is_at(before->fd, rc->path)) {
		rc->replaced = *before;
		*before = (struct replaced){.fd = -1};
	}
	return 0;
}

/* known: the original is up to date, no need to read the file. */
static int
write_ours(struct resolvconf *rc, uint32_t address, bool known, struct err *err)
{
	struct replaced before __attribute__((cleanup(replaced_fini))) = replaced_open(rc->path);
	struct resolv_original *o = &rc->original, next;
	auto_free char *fresh = NULL;
	size_t len;
	int code = known ? 0 : look_again(rc, err);

	if (code < 0)
		return code;
	fresh = resolvtext_build(o->text, o->len, rc->domain, address, &len);
	if (code == 1 && len == o->ours_len && memcmp(fresh, o->ours, len) == 0) {
		rc->address = address;
		rc->trouble = "";
		return 0;
	}
	next = *o;
	next.before = o->ours; /* it is there until the rename */
	next.before_len = o->ours_len;
	next.ours = fresh;
	next.ours_len = len;
	code = keep_original(rc, &next, err);
	if (code < 0)
		return code;
	code = resolvconf_replace(rc, &next, &before);
	if (code < 0) { /* a part of it may be there */
		free(o->before);
		o->before = take_ptr(&fresh);
		o->before_len = len;
		return resolvconf_cannot(rc, code, "write", err);
	}
	free(o->ours);
	o->ours = take_ptr(&fresh);
	o->ours_len = len;
	rc->written = true;
	rc->address = address;
	rc->trouble = "";
	return 0;
}

static bool
is_full(int code)
{
	return code == -ENOSPC || code == -EDQUOT;
}

static int
resolvconf_put(struct resolvconf *rc, uint32_t address, bool known, struct err *err)
{
	int code;

	rc->unkept = false;
	code = write_ours(rc, address, known, err);
	rc->due = code < 0;
	if (rc->unkept)
		rc->trouble = "left alone, its original cannot be kept";
	else if (code < 0)
		rc->trouble = is_full(code) ? "left alone, its disk is full" : "cannot be written";
	return code;
}

int
resolvconf_write(struct resolvconf *rc, uint32_t address, struct err *err)
{
	int code;

	if (!rc->manage)
		return 0;
	code = resolvconf_put(rc, address, false, err);
	return rc->unkept || is_full(code) ? RESOLVCONF_LEFT : code;
}

static bool
same_file(const struct resolv_original *a, const struct resolv_original *b)
{
	return a->kind == b->kind && a->len == b->len && memcmp(a->text, b->text, a->len) == 0 &&
		strcmp(a->link != NULL ? a->link : "", b->link != NULL ? b->link : "") == 0;
}

int
resolvconf_check(struct resolvconf *rc, bool mend, struct err *err)
{
	struct resolv_original now;
	int code = resolvfile_read(rc->path, &now);
	bool same, late;

	if (code < 0)
		return resolvconf_cannot(rc, code, "read", err);
	same = rc->written ? resolvfile_is_whole(&rc->original, &now)
			   : same_file(&rc->original, &now);
	resolv_original_fini(&now);
	late = same && mend && rc->written &&
		(take_late_words(rc) || take_link_target(rc) || rc->due);
	if (same && !late) {
		rc->trouble = rc->written && !rc->due ? "" : rc->trouble;
		return RESOLVCONF_SAME;
	}
	if (rc->written && mend) {
		code = resolvconf_put(rc, rc->address, late, err);
		return code < 0 ? code : RESOLVCONF_MENDED;
	}
	code = look_again(rc, err);
	if (code < 0)
		return code;
	if (rc->written)
		rc->trouble = "another program keeps changing it";
	return RESOLVCONF_READ;
}

int
resolvconf_restore(struct resolvconf *rc, struct err *err)
{
	int code;

	if (!rc->written)
		return 0;
	take_late_words(rc);
	code = resolvconf_undo(rc, &rc->original, err);
	if (code < 0)
		return code;
	rc->written = false;
	return 0;
}

void
resolvconf_settle(struct resolvconf *rc, bool ours)
{
	struct err why;

	if (ours ? rc->manage : rc->inherited)
		return;
	if (resolvconf_restore(rc, &why) < 0)
		log_warn("dns", "lines of ours that are not wanted stay: %s", why.text);
}

static bool
is_resolved(const struct addr *a)
{
	uint32_t ip = a->sa.sa_family == AF_INET ? ntohl(a->in.sin_addr.s_addr) : 0;

	return ip == RESOLVED_STUB || ip == RESOLVED_PROXY;
}

static bool
resolvconf_asks_resolved(const struct resolvconf *rc)
{
	struct addr listed[UPSTREAMS_READ];
	size_t n = resolvtext_upstreams(
		rc->original.text, rc->original.len, 0, listed, 0, UPSTREAMS_READ);

	for (size_t i = 0; i < n; i++)
		if (is_resolved(&listed[i]))
			return true;
	return false;
}

/* The servers that systemd-resolved queries; 0: unknown. */
static size_t
behind_resolved(const struct resolvconf *rc, uint32_t own, struct addr to[UPSTREAMS_READ])
{
	auto_free char *text = NULL;
	size_t len;

	if (rc->resolved == NULL || file_read(rc->resolved, RESOLVTEXT_MAX, &text, &len) < 0)
		return 0;
	return resolvtext_upstreams(text, len, own, to, 0, UPSTREAMS_READ);
}

size_t
resolvconf_upstreams(
	const struct resolvconf *rc, uint32_t own, struct addr *to, size_t n, size_t max)
{
	struct addr listed[UPSTREAMS_READ], behind[UPSTREAMS_READ];
	size_t n_listed = resolvtext_upstreams(
		rc->original.text, rc->original.len, own, listed, 0, UPSTREAMS_READ);

	for (size_t i = 0; i < n_listed && n < max; i++) {
		size_t n_behind = is_resolved(&listed[i]) ? behind_resolved(rc, own, behind) : 0;

		for (size_t k = 0; k < n_behind && n < max; k++)
			to[n++] = behind[k];
		if (n_behind == 0)
			to[n++] = listed[i];
	}
	return n;
}

void
resolvconf_state(const struct resolvconf *rc, struct buf *out)
{
	static const char *const kinds[] = {"file", "link", "missing"};
	const char *state = !rc->manage ? "unmanaged" : rc->written ? "ours" : "original";

	buf_printf(out, "{\"state\":\"%s\",\"original\":\"%s\",\"stub\":%s,\"trouble\":\"%s\"}",
		state, kinds[rc->original.kind], resolvconf_asks_resolved(rc) ? "true" : "false",
		rc->trouble);
}
