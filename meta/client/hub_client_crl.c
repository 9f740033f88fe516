#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/tls/pki_crl.h"
#include "meta/client/hub_client_private.h"

/* Only hubs send the list of revoked serial numbers, but it is trusted only if the CA signed it: a
 * stolen hub certificate cannot make nodes refuse the good hubs. A refused certificate stays
 * refused, across restarts and whichever hub comes next. The newest REFUSED_MOST are kept, as many
 * as a hub sends. */

enum { REFUSED_MOST = 256 };

static size_t
crl_count(const char *serials)
{
	size_t n = serials[0] != '\0';

	for (; *serials != '\0'; serials++)
		n += *serials == ',';
	return n;
}

/* Where the list contains this serial number; NULL: nowhere. */
static char *
crl_find(char *serials, const char *serial)
{
	size_t len = strlen(serial);

	for (char *at = serials; (at = strstr(at, serial)) != NULL; at += len)
		if ((at == serials || at[-1] == ',') && (at[len] == '\0' || at[len] == ','))
			return at;
	return NULL;
}

/* Takes the one that begins at `at` out of the list. */
static void
crl_drop(char *serials, char *at)
{
	const char *next = strchr(at, ',');

	if (next != NULL)
		memmove(at, next + 1, strlen(next));
	else
		at[at > serials ? -1 : 0] = '\0';
}

struct crl_reading {
	char *serials;
	bool changed; /* one came that was not held */
};

/* One that is held moves to the end: what makes room is not named by the list that is read. */
static void
crl_take_serial(void *arg, const char *serial)
{
	struct crl_reading *r = arg;
	auto_free char *held = NULL;
	char *at;

	if (serial[0] == '\0')
		return;
	held = take_ptr(&r->serials);
	at = crl_find(held, serial);
	r->changed |= at == NULL;
	if (at == NULL && crl_count(held) >= REFUSED_MOST)
		at = held;
	if (at != NULL)
		crl_drop(held, at);
	r->serials = xasprintf("%s%s%s", held, held[0] != '\0' ? "," : "", serial);
}

void
hub_client_use_refused(const struct hub_client *f, struct ssl_ctx_st *tls)
{
	if (tls != NULL)
		pki_ctx_refuse(tls, f->refused_hubs);
}

size_t
hub_client_count_refused(const struct hub_client *f)
{
	return crl_count(f->refused_hubs);
}

/* This node's connections to hubs refuse the certificates from now on. */
static void
crl_use_hubs(struct hub_client *f)
{
	hub_client_use_refused(f, f->tls);
	hub_client_use_refused(f, f->join_tls);
	/* reconnect the tunnels too: they may lead to another hub than this connection */
	f->certificates++;
	hub_client_tell_hub(f);
}

void
hub_client_take_notes(
	struct hub_client *f, const char *refused_hubs, const char *revoked_nodes, int64_t floor_s)
{
	if (refused_hubs != NULL && f->refused_hubs[0] == '\0') {
		free(f->refused_hubs);
		f->refused_hubs = xstrdup(refused_hubs);
	}
	if (revoked_nodes != NULL && f->revoked_nodes[0] == '\0') {
		free(f->revoked_nodes);
		f->revoked_nodes = xstrdup(revoked_nodes);
	}
	hub_client_raise_floor(f, floor_s);
	crl_use_hubs(f);
}

static void
crl_take_hubs(struct hub_client *f, const struct envelope *e)
{
	auto_free char *crl = message_crl(e->content, e->content_len);
	struct crl_reading r = {.changed = false};
	struct err err = {0};

	if (crl == NULL || f->identity.ca == NULL)
		return;
	r.serials = xstrdup(f->refused_hubs);
	if (pki_crl_read(crl, f->identity.ca, crl_take_serial, &r, &err) < 0)
		log_limited(LOG_LEVEL_WARN, 4, "meta",
			"the hub tells which hubs are revoked, and is not believed error=\"%s\"",
			err.text);
	if (!r.changed) {
		free(r.serials);
		return;
	}
	free(f->refused_hubs);
	f->refused_hubs = r.serials;
	log_warn("meta",
		"certificates of hubs were revoked; this node refuses them certificates=%zu",
		hub_client_count_refused(f));
	apply_note(f->apply, HUB_CLIENT_REFUSED_NOTE, f->refused_hubs);
	crl_use_hubs(f);
}

/* Other nodes' certificates: the hub's word counts, which says all of them each time. */
static void
crl_take_nodes(struct hub_client *f, const struct envelope *e)
{
	auto_free char *nodes = message_revoked(e->content, e->content_len);

	if (nodes == NULL || strcmp(nodes, f->revoked_nodes) == 0)
		return;
	free(f->revoked_nodes);
	f->revoked_nodes = take_ptr(&nodes);
	apply_note(f->apply, HUB_CLIENT_REVOKED_NOTE, f->revoked_nodes);
	hub_client_tell_hub(f);
}

void
hub_client_take_crl(struct hub_client *f, const struct envelope *e)
{
	crl_take_hubs(f, e);
	crl_take_nodes(f, e);
}

bool
hub_client_has_node_rules(const struct hub_client *f)
{
	return strstr(f->revoked_nodes, "\n* ") != NULL;
}

const char *
hub_client_revoked_nodes(const struct hub_client *f)
{
	return f->revoked_nodes;
}

bool
hub_client_refuses_node(const char *revoked_nodes, const char *node, const char *serial)
{
	auto_free char *key = xasprintf("\n%s ", node), *valid = NULL;
	const char *at = strstr(revoked_nodes, key);

	if (at == NULL)
		return false;
	at += strlen(key);
	valid = xstrndup(at, strcspn(at, "\n"));
	return serial[0] == '\0' || crl_find(valid, serial) == NULL;
}
