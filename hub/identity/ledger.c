#include "hub/identity/ledger_private.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "hub/identity/tokens.h"

/* Line in a node's file, before its certificate: the CAs that the node was given with it. */
#define CAS_LINE "edgeway-ca: "

enum {
	PEM_MAX = 256 * 1024,
	RECORD_NAME_MAX = 200, /* leaves room for the suffix of file_write within NAME_MAX */
};

static void
ledger_free_names(struct ledger *l)
{
	for (size_t i = 0; i < l->names.n; i++)
		free(l->names.names[i]);
	free(l->names.names);
	l->names = (struct names_list){0};
}

char *
ledger_record_path(const struct ledger *l, const char *node)
{
	char hash[PKI_HASH_TEXT];

	if (strlen(node) <= RECORD_NAME_MAX)
		return xasprintf("%s/nodes/%s", l->dir, node);
	pki_sha256_hex(node, strlen(node), hash);
	return xasprintf("%s/nodes/sha256-%s", l->dir, hash);
}

typedef void file_fn(void *arg, const char *file);

/* Skips temporary files of file_write and files whose name is not valid. */
static void
each_file(const struct ledger *l, file_fn *fn, void *arg)
{
	auto_free char *path = xasprintf("%s/nodes", l->dir);
	DIR *dir = opendir(path);
	struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		if (d->d_name[0] != '.' && strstr(d->d_name, ".tmp.") == NULL)
			fn(arg, d->d_name);
	}
	if (dir != NULL)
		closedir(dir);
}

/* --- open and close ------------------------------------------------------------------------- */

static void
on_any(void *arg, const char *file)
{
	(void)file;
	*(bool *)arg = true;
}

/* Creates the file of the revoked at the first start, so that a later loss of it can be noticed. */
static int
ledger_open_registry(struct ledger *l, struct err *err)
{
	static const char none[] = "{\"revoked\":[]}\n";
	auto_free char *path = xasprintf("%s/revoked.json", l->dir);
	bool any = false;
	int rc;

	if (access(path, F_OK) < 0 && errno == ENOENT) {
		each_file(l, on_any, &any);
		if (any)
			log_warn("hub",
				"%s is missing though nodes hold certificates: nobody counts as "
				"revoked; bring back a copy and restart, or revoke them again",
				path);
		if ((rc = file_write(path, none, sizeof none - 1, 0600)) < 0)
			return err_set(err, rc, "cannot write %s: %s", path, strerror(-rc));
	}
	return registry_open(&l->registry, l->dir, err);
}

static void
ledger_read_cas(struct ledger *l)
{
	auto_free char *path = xasprintf("%s/ca.list", l->dir), *text = NULL;

	list_file_init(&l->cas_file, path);
	if (file_read(path, CA_LIST_TEXT + 1, &text, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	if (ca_list_ok(text))
		strcpy(l->cas, text);
}

int
ledger_open(struct ledger **out, const char *dir, struct err *err)
{
	struct ledger *l = xcalloc(1, sizeof *l);
	auto_free char *nodes = xasprintf("%s/nodes", dir);
	auto_free char *journal = xasprintf("%s/" JOINS_JOURNAL, dir);
	int rc = mkdir_p(nodes, 0700);

	l->dir = xstrdup(dir);
	ledger_read_cas(l);
	if (rc < 0)
		rc = err_set(err, rc, "cannot make %s: %s", nodes, strerror(-rc));
	else
		rc = record_writer_new(&l->writer, journal, err);
	if (rc == 0)
		rc = ledger_open_registry(l, err);
	if (rc < 0)
		ledger_close(&l);
	*out = l;
	return rc;
}

void
ledger_close(struct ledger **out)
{
	struct ledger *l = take_ptr(out);
	struct ledger_write *w;

	if (l == NULL)
		return;
	record_writer_free(&l->writer);
	LIST_FOREACH(w, &l->writes, link)
		w->ledger = NULL;
	registry_close(&l->registry);
	name_archive_free(&l->roll);
	name_archive_free(&l->files);
	ledger_free_names(l);
	list_file_fini(&l->cas_file);
	free(l->dir);
	free(l);
}

/* --- names ---------------------------------------------------------------------------------- */

bool
ledger_taken(const struct ledger *l, const char *node)
{
	auto_free char *path = ledger_record_path(l, node);

	if (name_archive_find(l->roll, node) != NULL || record_writer_has(l->writer, node))
		return true;
	/* An error counts as taken: if in doubt, the name must not be given away. */
	return access(path, F_OK) == 0 || errno != ENOENT;
}

uint64_t
ledger_changes(const struct ledger *l)
{
	return l->changes + record_writer_changes(l->writer) +
		(l->roll != NULL ? name_archive_changes(l->roll) : 0);
}

static void
add_name(void *arg, const char *name)
{
	struct names_list *list = arg;

	/* Names too long for a file are not listed. */
	if (strncmp(name, "sha256-", 7) == 0)
		return;
	list->names = xrealloc(list->names, (list->n + 1) * sizeof *list->names);
	list->names[list->n++] = xstrdup(name);
}

static void
add_waiting(void *arg, const char *name, const char *text)
{
	(void)text;
	add_name(arg, name);
}

static void
ledger_list_names(struct ledger *l)
{
	struct names_list list = {0};
	const char *name;
	size_t kept = 0, at = 0;

	ledger_free_names(l);
	record_writer_each(l->writer, add_waiting, &list);
	each_file(l, add_name, &list);
	while (l->roll != NULL && (name = name_archive_walk(l->roll, &at)) != NULL)
		add_name(&list, name);
	if (list.n > 0)
		qsort(list.names, list.n, sizeof *list.names, compare_texts);
	for (size_t i = 0; i < list.n; i++) {
		if (kept > 0 && strcmp(list.names[kept - 1], list.names[i]) == 0)
			free(list.names[i]);
		else
			list.names[kept++] = list.names[i];
	}
	list.n = kept;
	l->names = list;
}

size_t
ledger_nodes(struct ledger *l, char ***names)
{
	uint64_t changes = ledger_changes(l);

	if (!l->listed || l->names_changes != changes)
		ledger_list_names(l);
	l->listed = true;
	l->names_changes = changes;
	*names = xcalloc(l->names.n + 1, sizeof **names);
	for (size_t i = 0; i < l->names.n; i++)
		(*names)[i] = xstrdup(l->names.names[i]);
	return l->names.n;
}

/* --- certificates --------------------------------------------------------------------------- */

int
ledger_entry(const struct ledger *l, struct name_archive_entry *entry, const char *cert_pem,
	struct err *err)
{
	char key[PKI_HASH_TEXT] = "";
	int rc;

	*entry = (struct name_archive_entry){0};
	strcpy(entry->cas, l->cas);
	rc = pki_cert_info(cert_pem, NULL, NULL, &entry->expires_s, err);

	entry->signed_s = (int64_t)(wall_ms() / 1000);
	if (rc == 0)
		rc = pki_cert_key(cert_pem, key, err);
	ledger_short_key(entry->key, key);
	return rc < 0 ? rc : pki_cert_serial(cert_pem, entry->serial, err);
}

void
ledger_short_key(char to[JOINS_KEY_TEXT], const char *key_hash)
{
	snprintf(to, JOINS_KEY_TEXT, "%s", key_hash);
}

/* The node's record, which may be on its way to its file; NULL: there is none, or it cannot be
 * read. */
static char *
ledger_read(const struct ledger *l, const char *node)
{
	auto_free char *path = ledger_record_path(l, node);
	char *text = record_writer_text(l->writer, node);

	if (text == NULL && file_read(path, PEM_MAX, &text, NULL) < 0)
		return NULL;
	return text;
}

/* The CAs stand before the PEM block, where text is not part of it (RFC 7468 section 2). */
char *
ledger_record_text(const char *cas, const char *cert_pem)
{
	return xasprintf(CAS_LINE "%s\n%s", cas, cert_pem);
}

static int
write_record(const struct ledger *l, const char *node, const char *cert_pem, const char *cas,
	struct err *err)
{
	auto_free char *path = ledger_record_path(l, node);
	auto_free char *text = ledger_record_text(cas, cert_pem);
	int rc;

	record_writer_wait(l->writer, node);
	rc = file_write(path, text, strlen(text), 0644);
	return rc < 0 ? err_set(err, rc, "cannot write %s: %s", path, strerror(-rc)) : 0;
}

/* The certificate is in use already: nobody waits for the disk. */
static void
note_record(const struct ledger *l, const char *node, const char *cert_pem, const char *cas)
{
	auto_free char *path = ledger_record_path(l, node);

	record_writer_put(l->writer,
		&(struct record_put){
			.name = node, .path = path, .text = ledger_record_text(cas, cert_pem)});
}

void
ledger_enter(struct ledger *l, const char *node, const struct name_archive_entry *entry)
{
	if (l->roll != NULL)
		name_archive_sign(l->roll, node, entry);
	else if (l->files != NULL)
		name_archive_sign(l->files, node, entry);
}

int
ledger_record(struct ledger *l, const char *node, const char *cert_pem, struct err *err)
{
	bool taken = ledger_taken(l, node);
	struct name_archive_entry entry;
	int rc = ledger_entry(l, &entry, cert_pem, err);

	if (rc == 0)
		rc = revoked_sign(l->registry, node, entry.serial, err);
	if (rc == 0)
		rc = write_record(l, node, cert_pem, l->cas, err);
	if (rc == 0)
		ledger_enter(l, node, &entry);
	l->changes += !taken;
	return rc;
}

int
ledger_note(struct ledger *l, const char *node, const char *cert_pem, struct err *err)
{
	bool taken = ledger_taken(l, node);
	struct name_archive_entry entry;
	int rc = ledger_entry(l, &entry, cert_pem, err);

	entry.cas[0] = '\0';
	if (rc == 0)
		rc = revoked_sign(l->registry, node, entry.serial, err);
	if (rc < 0)
		return rc;
	note_record(l, node, cert_pem, "");
	ledger_enter(l, node, &entry);
	l->changes += !taken;
	return 0;
}

int
ledger_revoke(struct ledger *l, const char *node, int64_t now_s, struct err *err)
{
	if (!ledger_taken(l, node))
		return err_set(err, ENOENT,
			"no node named \"%.253s\" holds a certificate; see `edgewayctl node list`",
			node);
	revoked_add(l->registry, node, now_s);
	return 0;
}

bool
ledger_given(const struct ledger *l, const char *node, const struct ledger_key *key, char **cert)
{
	const struct name_archive_entry *e = name_archive_find(l->roll, node);
	auto_free char *pem = ledger_cert(l, node);
	char serial[PKI_SERIAL_TEXT] = "", short_key[JOINS_KEY_TEXT];

	*cert = NULL;
	if (pem != NULL && pki_cert_serial(pem, serial, NULL) == 0 &&
		(e == NULL || strcmp(e->serial, serial) == 0) &&
		pki_cert_fits(pem, key->ca_pem, key->hash, key->now_s)) {
		if (revoked_refuses(l->registry, node, serial))
			return false;
		*cert = take_ptr(&pem);
		return true;
	}
	ledger_short_key(short_key, key->hash);
	return e != NULL && strcmp(e->key, short_key) == 0 && key->now_s < e->expires_s &&
		!revoked_refuses(l->registry, node, e->serial);
}

enum ledger_holder
ledger_holder(const struct ledger *l, const char *node, const char *key_hash)
{
	const struct name_archive_entry *e = name_archive_find(l->roll, node);
	auto_free char *pem = ledger_cert(l, node);
	char serial[PKI_SERIAL_TEXT] = "", key[PKI_HASH_TEXT] = "";

	if (!ledger_taken(l, node))
		return LEDGER_FREE;
	if (pem != NULL && pki_cert_serial(pem, serial, NULL) == 0)
		pki_cert_key(pem, key, NULL);
	/* the last certificate was signed by another replica */
	if (e != NULL && strcmp(e->serial, serial) != 0) {
		snprintf(serial, sizeof serial, "%s", e->serial);
		snprintf(key, sizeof key, "%s", e->key);
	}
	if (key[0] == '\0' || strncmp(key, key_hash, JOINS_KEY_TEXT - 1) != 0)
		return LEDGER_ANOTHER;
	return revoked_refuses(l->registry, node, serial) ? LEDGER_REVOKED : LEDGER_OWN;
}

/* --- forgetting ----------------------------------------------------------------------------- */

static int
remove_file(struct ledger *l, const char *node, struct err *err)
{
	auto_free char *path = ledger_record_path(l, node);

	record_writer_wait(l->writer, node);
	if (unlink(path) < 0 && errno != ENOENT)
		return err_set(err, errno, "cannot remove %s: %s", path, strerror(errno));
	l->changes++;
	return 0;
}

int
ledger_forget(struct ledger *l, const char *node, int64_t now_s, struct err *err)
{
	int rc = ledger_revoke(l, node, now_s, err);

	if (rc == 0)
		rc = remove_file(l, node, err);
	if (rc == 0 && l->roll != NULL)
		name_archive_forget(l->roll, node, now_s);
	else if (rc == 0 && l->files != NULL)
		name_archive_remove(l->files, node);
	return rc;
}

/* A forgotten node's file with a certificate that is not revoked was signed after the node was
 * forgotten, but the hub was interrupted before it could tell the others: that entry is added
 * now. */
void
ledger_drop_forgotten(struct ledger *l)
{
	const char *node;
	size_t at = 0;

	while ((node = name_archive_walk_forgotten(l->roll, &at)) != NULL) {
		auto_free char *pem = ledger_cert(l, node);
		char serial[PKI_SERIAL_TEXT];
		struct name_archive_entry entry;
		struct err err = {0};

		if (pem == NULL || pki_cert_serial(pem, serial, NULL) < 0)
			continue;
		if (!revoked_refuses(l->registry, node, serial)) {
			if (ledger_entry(l, &entry, pem, NULL) == 0)
				name_archive_sign(l->roll, node, &entry);
		} else if (remove_file(l, node, &err) < 0) {
			log_limited(LOG_LEVEL_ERROR, 4, "hub", "a node is not forgotten here: %s",
				err.text);
		}
	}
}

bool
ledger_info(const struct ledger *l, const char *node, char serial[PKI_SERIAL_TEXT],
	int64_t *not_after_s)
{
	const struct name_archive_entry *e = name_archive_find(l->roll, node);
	auto_free char *pem = NULL;

	if (e != NULL) {
		strcpy(serial, e->serial);
		*not_after_s = e->expires_s;
		return true;
	}
	pem = ledger_read(l, node);
	return pem != NULL && pki_cert_serial(pem, serial, NULL) == 0 &&
		pki_cert_info(pem, NULL, NULL, not_after_s, NULL) == 0;
}

/* Cuts off the text before the PEM block, which is ours. */
char *
ledger_cert(const struct ledger *l, const char *node)
{
	auto_free char *text = ledger_read(l, node);
	const char *block;

	if (text == NULL)
		return NULL;
	block = strstr(text, "-----BEGIN");
	return xstrdup(block != NULL ? block : text);
}

struct registry *
ledger_registry(const struct ledger *l)
{
	return l->registry;
}

static void
ledger_keep_cas(struct ledger *l)
{
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	buf_printf(&text, "%s\n", l->cas);
	list_file_keep(&l->cas_file, &text);
}

bool
ledger_end_tokens(struct ledger *l, int64_t now_s)
{
	unsigned n = l->held ? 0 : tokens_end(l->registry, now_s);

	if (n > 0)
		log_info("hub",
			"tokens have expired: they stay so even if the clock was ahead tokens=%u",
			n);
	return n > 0;
}

bool
ledger_keep(struct ledger *l, int64_t now_s)
{
	bool ended = ledger_end_tokens(l, now_s);

	if (l->cas_file.problem[0] != '\0')
		ledger_keep_cas(l);
	registry_retry(l->registry);
	if (l->held) /* the next hub has the files */
		return ended;
	/* not before the disk has that their tokens have ended */
	if (registry_problem(l->registry)[0] == '\0' && joins_drop_ended(l->registry, now_s))
		registry_keep(l->registry, REGISTRY_JOINS);
	record_writer_retry(l->writer);
	return ended;
}

const char *
ledger_problem(struct ledger *l)
{
	const char *problem = registry_problem(l->registry);

	if (problem[0] == '\0')
		problem = l->cas_file.problem;
	if (problem[0] != '\0')
		return problem;
	record_writer_problem(l->writer, l->problem, sizeof l->problem);
	return l->problem;
}

/* --- replicas ------------------------------------------------------------------------------- */

void
ledger_share(struct ledger *l)
{
	if (l->roll != NULL)
		return;
	l->roll = name_archive_new();
	name_archive_use_lists(l->roll, registry_list(l->registry, REGISTRY_JOINS),
		registry_list(l->registry, REGISTRY_REVOKED));
}

struct name_archive *
ledger_roll(const struct ledger *l)
{
	return l->roll;
}

struct reading {
	struct ledger *ledger;
	struct name_archive *roll;
	bool any;
};

/* Reads the list of CAs from the file's text, "": none. */
static void
read_cas(char cas[CA_LIST_TEXT], const char *text)
{
	const char *at = text + strlen(CAS_LINE);
	size_t len;

	cas[0] = '\0';
	if (strncmp(text, CAS_LINE, strlen(CAS_LINE)) != 0)
		return;
	len = strcspn(at, "\r\n");
	if (len < CA_LIST_TEXT)
		snprintf(cas, CA_LIST_TEXT, "%.*s", (int)len, at);
	if (!ca_list_ok(cas))
		cas[0] = '\0';
}

/* Adds a node's file that the exchanged registry does not know. The certificate's notBefore tells
 * when it was signed. */
static void
add_record(void *arg, const char *file, const char *pem)
{
	struct reading *r = arg;
	auto_free char *name = NULL;
	struct name_archive_entry entry;
	int64_t from;

	if (name_archive_last(r->roll, file) != NULL ||
		pki_cert_info(pem, &name, &from, NULL, NULL) < 0 ||
		name_archive_last(r->roll, name) != NULL ||
		ledger_entry(r->ledger, &entry, pem, NULL) < 0)
		return;
	entry.signed_s = from;
	read_cas(entry.cas, pem);
	name_archive_add(r->roll, name, &entry);
	r->any = true;
}

static void
add_file(void *arg, const char *file)
{
	struct reading *r = arg;
	auto_free char *path = xasprintf("%s/nodes/%s", r->ledger->dir, file), *pem = NULL;

	if (name_archive_last(r->roll, file) == NULL && file_read(path, PEM_MAX, &pem, NULL) == 0)
		add_record(r, file, pem);
}

int
ledger_merge(struct ledger *l, const char *text, struct registry_heard *heard, struct err *err)
{
	struct reading r = {.ledger = l, .roll = l->roll};
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	int rc = name_archive_merge(l->roll, text, heard, err);

	if (rc == 0)
		rc = registry_merge(l->registry, REGISTRY_JOINS, text, now_s, heard, err);
	if (rc == 0)
		each_file(l, add_file, &r);
	heard->lacks |= r.any;
	return rc;
}

void
ledger_text(const struct ledger *l, struct buf *out)
{
	buf_adds(out, "{");
	name_archive_text(l->roll, out);
	buf_adds(out, ",\n");
	records_text(registry_list(l->registry, REGISTRY_JOINS), true, out);
	buf_adds(out, "}\n");
}

/* --- CAs ------------------------------------------------------------------------------------ */

void
ledger_use_cas(struct ledger *l, const char *list)
{
	if (l->roll != NULL)
		name_archive_use_cas(l->roll, list, (int64_t)(wall_ms() / 1000));
	if (strcmp(l->cas, list) == 0)
		return;
	snprintf(l->cas, sizeof l->cas, "%s", list);
	ledger_keep_cas(l);
}

const char *
ledger_cas(const struct ledger *l)
{
	return l->cas[0] == '\0' && l->roll != NULL ? name_archive_cas(l->roll) : l->cas;
}

/* The known data of the node: its certificate's serial number and its CAs. */
static bool
find_cas(const struct ledger *l, const char *node, struct name_archive_entry *known)
{
	const struct name_archive_entry *e = name_archive_find(l->roll, node);
	auto_free char *text = NULL;

	if (e != NULL) {
		*known = *e;
		return true;
	}
	if (l->roll != NULL || (text = ledger_read(l, node)) == NULL ||
		ledger_entry(l, known, text, NULL) < 0)
		return false;
	read_cas(known->cas, text);
	return true;
}

bool
ledger_note_cas(struct ledger *l, const char *node, const char *cert_pem, const char *cas)
{
	auto_free char *file = NULL;
	struct name_archive_entry known;
	char serial[PKI_SERIAL_TEXT];

	if (cas[0] == '\0' || !ca_list_ok(cas) || !find_cas(l, node, &known) ||
		strcmp(known.cas, cas) == 0)
		return false;
	/* As long as there is one CA and all nodes have it, nothing needs to be recorded. */
	if (known.cas[0] == '\0' && ca_list_is_current("", l->cas) && strcmp(cas, l->cas) == 0)
		return false;
	if (pki_cert_serial(cert_pem, serial, NULL) < 0 || strcmp(known.serial, serial) != 0)
		return false;
	strcpy(known.cas, cas);
	known.signed_s++; /* so that the other replicas take this as the later entry */
	if (l->roll != NULL)
		name_archive_add(l->roll, node, &known);
	else if (l->files != NULL)
		name_archive_add(l->files, node, &known);
	file = ledger_cert(l, node);
	if (file != NULL && pki_cert_serial(file, serial, NULL) == 0 &&
		strcmp(known.serial, serial) == 0)
		note_record(l, node, file, cas); /* for the time after a restart */
	return l->roll != NULL;
}

void
ledger_each_cas(struct ledger *l, int64_t now_s, ledger_cas_fn *each, void *arg)
{
	const struct name_archive *roll = l->roll;
	const char *node;
	size_t at = 0;

	if (roll == NULL && l->files == NULL) {
		struct reading r = {.ledger = l, .roll = l->files = name_archive_new()};

		record_writer_each(l->writer, add_record, &r); /* first: meanwhile files come */
		each_file(l, add_file, &r);
	}
	if (roll == NULL)
		roll = l->files;
	while ((node = name_archive_walk(roll, &at)) != NULL) {
		const struct name_archive_entry *e = name_archive_find(roll, node);

		if (now_s < e->expires_s && !revoked_refuses(l->registry, node, e->serial))
			each(arg, node, e->cas);
	}
}
