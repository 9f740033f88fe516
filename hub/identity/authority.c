#include "hub/identity/authority.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "hub/identity/own_service.h"
#include "hub/port/route.h"
#include "model/json.h"

enum { CA_NAMED = 20 };

struct authority {
	struct loop *loop;
	struct authority_config config;
	struct share *share;
	struct own_service *service;
	struct certs *certs;
	struct approvals *approvals;
	struct ssl_ctx_st *tls, *peer_tls;
	struct timer *check;
	bool ready;
	char problem[800];
	bool ca_forced; /* even if another CA cuts off nodes */
	char ca_refused[768]; /* why the CA of the Secret is not used; "": it is used */
	char unrenewed[512]; /* why the hub's certificate is not renewed; "": it is */
};

static int64_t
now_s(void)
{
	return (int64_t)(wall_ms() / 1000);
}

/* --- the hub's certificate ------------------------------------------------------------------ */

static void
authority_renew(struct authority *a)
{
	struct ssl_ctx_st *ctx = NULL, *peer = NULL, *former = a->peer_tls;
	struct err err = {0};
	int rc = certs_server_ctx(a->certs, now_s(), &ctx, &err);

	if (rc == 0)
		rc = certs_client_ctx(a->certs, &peer, &err);
	if (rc == 0)
		a->peer_tls = peer;
	if (rc == 0 && (rc = a->config.renewed(a->config.arg, ctx)) < 0)
		err_set(&err, rc, "%s", strerror(-rc));
	if (rc < 0) {
		log_limited(LOG_LEVEL_ERROR, 1, "hub",
			"the hub's certificate cannot be renewed: %s", err.text);
		snprintf(a->unrenewed, sizeof a->unrenewed, "%s", err.text);
		pki_ctx_free(&ctx);
		pki_ctx_free(&peer);
		a->peer_tls = former;
		return;
	}
	a->unrenewed[0] = '\0';
	pki_ctx_free(&former);
	pki_ctx_free(&a->tls);
	a->tls = ctx;
}

static struct registry *
authority_registry(const struct authority *a)
{
	return ledger_registry(certs_ledger(a->certs));
}

static void authority_accept_ca(struct authority *a);

static void
on_check(void *arg)
{
	struct authority *a = arg;

	if (!a->ready) {
		share_ca_again(a->share);
		authority_accept_ca(a);
		return;
	}
	if (ledger_keep(certs_ledger(a->certs), now_s()) && a->share != NULL)
		share_tell_tokens(a->share);
	if (certs_renew_due(a->certs, now_s()))
		authority_renew(a);
	if (a->share != NULL) {
		a->ca_refused[0] = '\0';
		share_ca_again(a->share);
	}
}

static void
on_names(void *arg)
{
	struct authority *a = arg;

	if (a->certs == NULL)
		return;
	certs_use_names(a->certs, own_service_names(a->service));
	if (a->ready)
		on_check(a);
}

/* --- start ---------------------------------------------------------------------------------- */

static int
authority_open_tls(struct authority *a, struct err *err)
{
	int rc;

	pki_ctx_free(&a->tls);
	pki_ctx_free(&a->peer_tls);
	rc = certs_server_ctx(a->certs, now_s(), &a->tls, err);
	return rc < 0 ? rc : certs_client_ctx(a->certs, &a->peer_tls, err);
}

static int
open_files(struct authority *a, struct err *err)
{
	int rc = certs_open(&a->certs, &a->config.certs, err);

	if (rc == 0 && a->service != NULL)
		certs_use_names(a->certs, own_service_names(a->service));
	return rc < 0 ? rc : authority_open_tls(a, err);
}

static void
authority_watch(struct authority *a)
{
	if (a->check == NULL)
		a->check = timer_new(a->loop, on_check, a);
	timer_start(a->check, AUTHORITY_CHECK_MS, AUTHORITY_CHECK_MS);
}

static void
authority_begin(struct authority *a)
{
	a->ready = true;
	if (a->config.approval && a->config.api != NULL)
		a->approvals = approvals_start(&(struct approvals_config){
			.loop = a->loop,
			.api = a->config.api,
			.certs = a->certs,
			.share = a->share,
			.bars = a->config.bars,
			.bars_arg = a->config.arg,
		});
	authority_watch(a);
}

static void
on_share_ready(void *arg)
{
	struct authority *a = arg;
	struct err err = {0};

	if (open_files(a, &err) < 0) {
		log_error("hub", "nodes cannot be served: %s; restart the hub then", err.text);
		memcpy(a->problem, err.text, MIN(sizeof a->problem, sizeof err.text));
		a->problem[sizeof a->problem - 1] = '\0';
		return;
	}
	share_begin(a->share, a->certs);
}

/* Only an explicit order of the operator may cut off nodes. */
static int
on_ca_allowed(void *arg, const char *ca_pem, struct err *err)
{
	struct authority *a = arg;
	auto_buf struct buf names;
	size_t n;

	buf_init(&names, BUF_UNLIMITED);
	n = certs_cut_off(a->certs, ca_pem, now_s(), &names);
	a->ca_refused[0] = '\0';
	if (n == 0)
		return 0;
	if (a->ca_forced || (!a->ready && a->config.certs.ca_force)) {
		log_warn("hub",
			"another CA cuts off nodes, as was asked for nodes=%zu names=\"%s\"", n,
			buf_str(&names));
		return 0;
	}
	snprintf(a->ca_refused, sizeof a->ca_refused,
		"it would cut off %zu nodes that have not got it, or whose certificates are of one "
		"that "
		"is not there any more: %.400s; see `edgewayctl ca list`, or lose them by "
		"`edgewayctl ca "
		"use --force`",
		n, buf_str(&names));
	return err_set(err, EBUSY, "%s", a->ca_refused);
}

static void
authority_hold(struct authority *a, const char *what, const struct err *err)
{
	char text[sizeof a->problem];

	snprintf(text, sizeof text, "%s: %.760s", what, err->text);
	if (strcmp(text, a->problem) != 0)
		log_error("hub", "nodes are not served yet: %s", text);
	memcpy(a->problem, text, sizeof text);
	authority_watch(a);
}

/*
 * The state of all replicas has been read: decides whether the CA found at the start may be used. A
 * new replica got it from the Secret without checking whom it cuts off. Until it may be used, or an
 * operator orders it, nodes are not served. A replica that had this CA before hubs kept the list of
 * CAs goes on without the check.
 */
static void
authority_accept_ca(struct authority *a)
{
	bool known = share_had_ca(a->share) && certs_ca_list(a->certs)[0] == '\0';
	struct err err = {0};

	if (!known && on_ca_allowed(a, certs_ca_pem(a->certs), &err) < 0) {
		authority_hold(a, "its CA is not used", &err);
		return;
	}
	if ((a->tls == NULL || a->peer_tls == NULL) && authority_open_tls(a, &err) < 0) {
		authority_hold(a, "its certificate cannot be made", &err);
		return;
	}
	a->problem[0] = '\0';
	certs_accept_ca(a->certs);
	share_tell_nodes(a->share);
	authority_begin(a);
	a->config.ready(a->config.arg);
	share_ca_again(a->share);
}

static void
on_share_synced(void *arg)
{
	authority_accept_ca(arg);
}

static int
on_ca_changed(void *arg, const char *ca_pem, const char *ca_key, struct err *err)
{
	struct authority *a = arg;
	int rc = certs_use_ca(a->certs, ca_pem, ca_key, err);

	if (rc == 0)
		share_tell_nodes(a->share);
	if (rc == 0 && !a->ready)
		rc = authority_open_tls(a, err);
	else if (rc == 0) {
		authority_renew(a);
		a->config.ca_changed(a->config.arg);
	}
	return rc;
}

static void
on_share_news(void *arg)
{
	struct authority *a = arg;

	on_check(a); /* the hub's own certificate may be among the revoked ones */
	if (a->ready)
		a->config.revoked(a->config.arg);
}

static int
start_service(struct authority *a, struct err *err)
{
	const struct own_service_config config = {
		.loop = a->loop,
		.api = a->config.api,
		.service = a->config.service,
		.cluster_domain = a->config.cluster_domain,
		.changed = on_names,
		.arg = a,
	};
	int rc = own_service_start(&a->service, &config, err);

	return rc < 0 ? err_wrap(err, rc, "tls.service") : 0;
}

int
authority_start(struct authority **out, struct loop *loop, const struct authority_config *config,
	struct err *err)
{
	struct authority *a = xcalloc(1, sizeof *a);
	const struct share_config share = {
		.loop = loop,
		.api = config->api,
		.ns = config->ns,
		.data_dir = config->certs.data_dir,
		.ca = config->certs.ca[0] == '\0',
		.ready = on_share_ready,
		.synced = on_share_synced,
		.ca_allowed = on_ca_allowed,
		.ca_changed = on_ca_changed,
		.news = on_share_news,
		.arg = a,
	};
	int rc = 0;

	a->loop = loop;
	a->config = *config;
	a->config.certs.shared = config->api != NULL && config->ns[0] != '\0';
	if (config->api != NULL && config->service[0] != '\0')
		rc = start_service(a, err);
	if (rc == 0 && config->api != NULL && config->ns[0] != '\0')
		a->share = share_start(&share);
	else if (rc == 0 && (rc = open_files(a, err)) == 0)
		authority_begin(a);
	*out = a;
	if (rc < 0)
		authority_stop(out);
	return rc;
}

void
authority_stop(struct authority **out)
{
	struct authority *a = take_ptr(out);

	if (a == NULL)
		return;
	timer_free(&a->check);
	if (a->ready)
		ledger_keep(certs_ledger(a->certs), now_s());
	approvals_stop(&a->approvals);
	share_stop(&a->share);
	own_service_stop(&a->service);
	certs_close(&a->certs);
	pki_ctx_free(&a->tls);
	pki_ctx_free(&a->peer_tls);
	free(a);
}

bool
authority_ready(const struct authority *a)
{
	return a->ready;
}

const char *
authority_waits(const struct authority *a)
{
	if (a->ready)
		return "";
	return a->problem[0] != '\0' ? a->problem : share_waits(a->share);
}

struct certs *
authority_certs(const struct authority *a)
{
	return a->certs;
}

struct share *
authority_share(const struct authority *a)
{
	return a->share;
}

struct approvals *
authority_approvals(const struct authority *a)
{
	return a->approvals;
}

struct ssl_ctx_st *
authority_tls(const struct authority *a)
{
	return a->tls;
}

struct ssl_ctx_st *
authority_peer_tls(const struct authority *a)
{
	return a->peer_tls;
}

/* --- tokens and nodes ----------------------------------------------------------------------- */

static int
check_ready(const struct authority *a, struct err *err)
{
	if (a->ready)
		return 0;
	return err_set(err, EAGAIN, "the hub is not ready: %.300s", authority_waits(a));
}

int
authority_token_create(
	struct authority *a, const struct tokens_wish *wish, struct buf *out, struct err *err)
{
	char secret[TOKEN_SECRET_LEN + 1];
	int rc = check_ready(a, err);

	if (rc < 0)
		return rc;
	if (!certs_can_sign(a->certs))
		return err_set(err, ENOTSUP,
			"this hub signs no certificates: tls.ca is set and tls.caKey is not");
	if (wish->node[0] != '\0' && !node_name_ok(wish->node))
		return err_set(err, EINVAL,
			"\"%.80s\" cannot be the name of a node: a-z, 0-9, '-' and '.' only",
			wish->node);
	rc = tokens_create(authority_registry(a), wish, now_s(), secret, err);
	if (rc < 0)
		return rc;
	if (a->share != NULL)
		share_tell_tokens(a->share);
	log_info("hub", "token made id=%.*s node=%s uses=%llu ttl_s=%llu", TOKEN_ID_LEN, secret,
		wish->node[0] != '\0' ? wish->node : "(any)", (unsigned long long)wish->uses,
		(unsigned long long)wish->ttl_s);
	buf_printf(out, "%s.%s", certs_ca_hash(a->certs), secret);
	return 0;
}

void
authority_token_list(const struct authority *a, struct buf *out)
{
	buf_adds(out, "{\"tokens\":");
	if (a->ready)
		tokens_list(authority_registry(a), now_s(), out);
	else
		buf_adds(out, "[]");
	buf_adds(out, "}\n");
}

int
authority_token_revoke(struct authority *a, const char *id, struct err *err)
{
	int rc = check_ready(a, err);

	if (rc < 0 || (rc = tokens_revoke(authority_registry(a), id, err)) < 0)
		return rc;
	if (a->share != NULL)
		share_tell_tokens(a->share);
	log_info("hub", "token revoked id=%s", id);
	return 0;
}

typedef int authority_end_fn(struct ledger *l, const char *node, int64_t now_s, struct err *err);

static int
authority_end_node(struct authority *a, const char *node, authority_end_fn *end, struct err *err)
{
	int rc = check_ready(a, err);

	if (rc < 0)
		return rc;
	if (!node_name_ok(node))
		return err_set(err, EINVAL, "\"%.80s\" cannot be the name of a node", node);
	if ((rc = end(certs_ledger(a->certs), node, now_s(), err)) < 0)
		return rc;
	rc = (int)tokens_revoke_node(authority_registry(a), node);
	if (a->share != NULL) {
		share_tell_nodes(a->share);
		share_tell_tokens(a->share);
	}
	return rc;
}

int
authority_node_revoke(struct authority *a, const char *node, struct err *err)
{
	return authority_end_node(a, node, ledger_revoke, err);
}

int
authority_node_forget(struct authority *a, const char *node, struct err *err)
{
	return authority_end_node(a, node, ledger_forget, err);
}

int
authority_hub_revoke(struct authority *a, const char *serial, struct err *err)
{
	int rc = check_ready(a, err);

	if (rc == 0)
		rc = certs_revoke_hub(a->certs, serial, now_s(), err);
	if (rc < 0)
		return rc;
	log_info("hub", "certificate of a hub revoked serial=%s", serial);
	if (a->share != NULL)
		share_tell_nodes(a->share);
	on_check(a); /* the hub's own certificate may be the revoked one */
	return 0;
}

/* --- exchange of the CA --------------------------------------------------------------------- */

int
authority_ca_use(struct authority *a, bool force, struct err *err)
{
	const char *why;
	int rc;

	if (force && !a->ready && a->share != NULL && a->ca_refused[0] != '\0') {
		a->ca_forced = true;
		on_check(a);
		a->ca_forced = false;
	}
	if ((rc = check_ready(a, err)) < 0)
		return rc;
	if (a->share == NULL)
		return err_set(err, ENOTSUP,
			"the CA of this hub is a file: it is read at the start; tls.caForce makes "
			"the "
			"hub take it whomever that cuts off");
	a->ca_forced = force;
	a->ca_refused[0] = '\0';
	why = share_ca_again(a->share);
	a->ca_forced = false;
	if (a->ca_refused[0] != '\0')
		why = a->ca_refused;
	return why[0] == '\0' ? 0 : err_set(err, EBUSY, "%s", why);
}

static void
add_holders(const struct authority *a, size_t most, struct buf *out)
{
	auto_buf struct buf lacking;
	struct certs_holders n;

	buf_init(&lacking, BUF_UNLIMITED);
	n = certs_ca_holders(a->certs, now_s(), most, &lacking);
	buf_printf(out, "{\"cas\":\"%s\",\"have\":%zu,\"lack\":%zu,\"lacking\":[%s],\"refused\":",
		certs_ca_list(a->certs), n.have, n.lack, buf_str(&lacking));
	json_add_text(out, a->ca_refused);
	buf_adds(out, "}");
}

void
authority_ca_list(const struct authority *a, struct buf *out)
{
	if (a->ready)
		add_holders(a, SIZE_MAX, out);
	else
		buf_adds(out, "{\"lacking\":[]}");
	buf_adds(out, "\n");
}

const char *
authority_unwritten(const struct authority *a)
{
	return a->certs != NULL ? ledger_problem(certs_ledger(a->certs)) : "";
}

/* --- telling -------------------------------------------------------------------------------- */

static void
add_term(const char *key, const struct certs_term *term, struct buf *out)
{
	buf_printf(out,
		"\"%s\":{\"serial\":\"%s\",\"notBefore\":%lld,\"notAfter\":%lld,\"own\":%s,"
		"\"expires\":\"",
		key, term->serial, (long long)term->from_s, (long long)term->to_s,
		term->own ? "true" : "false");
	if (term->to_s != 0)
		buf_add_utc(out, term->to_s);
	buf_adds(out, "\"},");
}

static void
add_certificates(const struct authority *a, struct buf *out)
{
	struct certs_term ca, hub;

	if (a->certs == NULL)
		return;
	certs_terms(a->certs, &ca, &hub);
	buf_adds(out, ",\"certificates\":{");
	add_term("ca", &ca, out);
	add_term("hub", &hub, out);
	buf_adds(out, "\"problem\":");
	json_add_text(out, a->unrenewed);
	buf_adds(out, "}");
}

static void
certificate_metrics(const struct authority *a, struct metrics *to)
{
	static const char name[] = "edgeway_hub_ca_nodes";
	static const char help[] = "Nodes whose certificates count, by whether they were given the "
				   "CAs in use, and a certificate of the first.";
	struct certs_term ca = {0}, hub = {0};
	struct certs_holders n = {0};

	if (a->ready)
		n = certs_ca_holders(a->certs, now_s(), 0, NULL);
	metric_gauge(to, name, help, "has=\"yes\"", (double)n.have);
	metric_gauge(to, name, help, "has=\"no\"", (double)n.lack);
	metric_gauge(to, "edgeway_hub_ca_refused",
		"1 while the CA of the Secret is not used since it would cut off nodes.", NULL,
		a->ca_refused[0] != '\0');

	if (a->certs != NULL)
		certs_terms(a->certs, &ca, &hub);
	metric_gauge(to, "edgeway_hub_ca_expiry_timestamp_seconds",
		"When the CA that signs nodes ends, since 1970; 0: none yet.", NULL,
		(double)ca.to_s);
	metric_gauge(to, "edgeway_hub_certificate_expiry_timestamp_seconds",
		"When the hub's own certificate ends, since 1970; 0: none yet.", NULL,
		(double)hub.to_s);
}

void
authority_state(const struct authority *a, struct buf *out)
{
	buf_printf(
		out, "\"ca\":\"%s\",\"waits\":", a->certs != NULL ? certs_ca_hash(a->certs) : "");
	json_add_text(out, authority_waits(a));
	buf_adds(out, ",\"dataDir\":");
	json_add_text(out, a->config.certs.data_dir);
	buf_adds(out, ",\"unwritten\":");
	json_add_text(out, authority_unwritten(a));
	add_certificates(a, out);
	if (a->ready) {
		buf_adds(out, ",\"caNodes\":");
		add_holders(a, CA_NAMED, out);
	}
	if (a->share != NULL) {
		buf_adds(out, ",\"shared\":");
		share_state(a->share, out);
	}
	if (a->service != NULL) {
		buf_adds(out, ",\"service\":");
		own_service_state(a->service, out);
	}
	if (a->approvals != NULL) {
		buf_adds(out, ",\"approvals\":");
		approvals_state(a->approvals, out);
	}
}

void
authority_metrics(const struct authority *a, struct metrics *to)
{
	certificate_metrics(a, to);
	if (a->share != NULL)
		share_metrics(a->share, to);
	if (a->approvals != NULL)
		approvals_metrics(a->approvals, to);
}
