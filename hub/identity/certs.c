#include "hub/identity/certs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "base/http/own_host.h"
#include "base/tls/pki_crl.h"
#include "base/tls/pki_tickets.h"
#include "hub/kube/names.h"
#include "model/check.h"

enum {
	CA_DAYS = 3650,
	HUB_DAYS = 90, /* limits how long a stolen certificate is usable if nobody revokes it */
	PEM_MAX = 256 * 1024,
};

struct certs {
	char *dir;
	char *ca_pem, *ca_key; /* ca_key NULL: nothing can be signed */
	char ca_hash[PKI_HASH_TEXT];
	char *cert, *key; /* the operator's certificate of the hub, else NULL */
	char *listen, *cluster_domain;
	uint64_t node_life_s;
	struct ledger *ledger;
	struct names wanted; /* tls.names */
	struct names more; /* certs_use_names */
	struct names current; /* of the hub's certificate in use */
	struct certs_term term; /* its validity */
	bool own_ca;
	/* list of revoked hub certificates; NULL: none is revoked, or it must be built again */
	char *crl;
	uint64_t crl_changes; /* of the list that crl was built from */
};

/* The operator's names come first, so that they fit even with many interfaces. */
static void
names_now(const struct certs *c, struct names *names)
{
	char host[256] = "";

	for (size_t i = 0; i < c->wanted.n; i++)
		names_add(names, c->wanted.name[i]);
	for (size_t i = 0; i < c->more.n; i++)
		names_add(names, c->more.name[i]);
	if (gethostname(host, sizeof host - 1) == 0)
		names_add(names, host);
	names_add(names, "localhost");
	names_add(names, "127.0.0.1");
	names_add(names, c->listen);
	names_add_interfaces(names);
}

static int
read_pem(const char *path, const char *what, char **pem, struct err *err)
{
	int rc = file_read(path, PEM_MAX, pem, NULL);

	return rc < 0 ? err_set(err, rc, "cannot read %s %s: %s", what, path, strerror(-rc)) : 0;
}

static int
write_pem(const char *path, const char *pem, unsigned mode, struct err *err)
{
	int rc = file_write(path, pem, strlen(pem), mode);

	return rc < 0 ? err_set(err, rc, "cannot write %s: %s", path, strerror(-rc)) : 0;
}

int
certs_ca_new(char **ca_pem, char **ca_key, struct err *err)
{
	int rc = pki_ca_new("edgeway hub CA", CA_DAYS, ca_pem, ca_key, err);

	return rc < 0 ? err_wrap(err, rc, "cannot make the CA") : 0;
}

/* Writes the key first: then a ca.pem always has its key, and a key without ca.pem was never
 * used. */
int
certs_ca_save(const char *data_dir, const char *ca_pem, const char *ca_key, struct err *err)
{
	auto_free char *cert_path = xasprintf("%s/ca.pem", data_dir);
	auto_free char *key_path = xasprintf("%s/ca.key", data_dir);
	int rc = write_pem(key_path, ca_key, 0600, err);

	return rc < 0 ? rc : write_pem(cert_path, ca_pem, 0644, err);
}

int
certs_ca_load(const char *data_dir, char **ca_pem, char **ca_key, struct err *err)
{
	auto_free char *cert_path = xasprintf("%s/ca.pem", data_dir);
	auto_free char *key_path = xasprintf("%s/ca.key", data_dir);
	int rc = read_pem(cert_path, "the CA", ca_pem, err);

	if (rc == 0)
		rc = read_pem(key_path, "the CA's key", ca_key, err);
	if (rc < 0)
		free(take_ptr(ca_pem));
	return rc;
}

static int
own_ca_make(struct certs *c, const char *cert_path, struct err *err)
{
	int rc = certs_ca_new(&c->ca_pem, &c->ca_key, err);

	if (rc == 0 && (rc = certs_ca_save(c->dir, c->ca_pem, c->ca_key, err)) < 0)
		return err_wrap(err, rc, "dataDir cannot be written");
	if (rc == 0)
		log_info("hub", "made a CA of its own file=%s", cert_path);
	return rc;
}

/* Tests with rmdir(2), which also removes an empty folder. On a read-only file system it fails
 * whether there is one or not (EROFS): then it is for the attempt to write the CA to fail. */
static bool
any_node(const struct certs *c)
{
	auto_free char *path = xasprintf("%s/nodes", c->dir);

	return rmdir(path) < 0 && errno != ENOENT && errno != EROFS;
}

static int
own_ca(struct certs *c, struct err *err)
{
	auto_free char *cert_path = xasprintf("%s/ca.pem", c->dir);

	if (access(cert_path, F_OK) < 0 && errno == ENOENT) {
		if (any_node(c))
			return err_set(err, ENOENT,
				"%s is gone, and nodes hold certificates of this CA: bring the "
				"file "
				"back, or remove %s/nodes to begin anew, and every node has to "
				"join "
				"again",
				cert_path, c->dir);
		return own_ca_make(c, cert_path, err);
	}
	return certs_ca_load(c->dir, &c->ca_pem, &c->ca_key, err);
}

void
certs_accept_ca(struct certs *c)
{
	char cas[CA_LIST_TEXT];

	ca_list(cas, c->ca_pem);
	ledger_use_cas(c->ledger, cas);
}

/* Replaces the CA in use; on an error the old one stays. */
int
certs_use_ca(struct certs *c, const char *ca_pem, const char *ca_key, struct err *err)
{
	char hash[PKI_HASH_TEXT];
	int rc = pki_pair_check(ca_pem, ca_key, err);

	if (rc == 0)
		rc = pki_cert_hash(ca_pem, hash, err);
	if (rc == 0)
		rc = certs_ca_save(c->dir, ca_pem, ca_key, err);
	if (rc < 0)
		return rc;
	free(c->ca_pem);
	free(c->ca_key);
	c->ca_pem = xstrdup(ca_pem);
	c->ca_key = xstrdup(ca_key);
	memcpy(c->ca_hash, hash, sizeof hash);
	certs_accept_ca(c);
	c->term = (struct certs_term){0}; /* the hub's certificate was signed by the former CA */
	free(take_ptr(&c->crl));
	return 0;
}

static int
given_ca(struct certs *c, const struct certs_config *config, struct err *err)
{
	int rc = read_pem(config->ca, "tls.ca", &c->ca_pem, err);

	if (rc < 0 || config->ca_key[0] == '\0')
		return rc;
	return read_pem(config->ca_key, "tls.caKey", &c->ca_key, err);
}

static int
given_cert(struct certs *c, const struct certs_config *config, struct err *err)
{
	int rc = read_pem(config->cert, "tls.cert", &c->cert, err);

	if (rc == 0)
		rc = read_pem(config->key, "tls.key", &c->key, err);
	if (rc == 0 && (rc = pki_pair_check(c->cert, c->key, err)) < 0)
		return err_wrap(err, rc, "tls.cert and tls.key do not belong together");
	return rc;
}

static int
check_config(const struct certs_config *config, struct err *err)
{
	if ((config->cert[0] == '\0') != (config->key[0] == '\0'))
		return err_set(err, EINVAL, "tls.cert and tls.key need each other");
	if (config->ca_key[0] != '\0' && config->ca[0] == '\0')
		return err_set(err, EINVAL, "tls.caKey needs tls.ca");
	if (config->cert[0] != '\0' && config->ca[0] == '\0')
		return err_set(err, EINVAL,
			"tls.cert needs tls.ca: nodes trust only the CA that signs them");
	if (config->ca[0] != '\0' && config->ca_key[0] == '\0' && config->cert[0] == '\0')
		return err_set(err, EINVAL,
			"tls.ca alone gives no certificate: add tls.caKey, or tls.cert and "
			"tls.key");
	return 0;
}

static int
check_cut_off(const struct certs *c, struct err *err)
{
	auto_buf struct buf names;
	size_t n;

	buf_init(&names, BUF_UNLIMITED);
	n = certs_cut_off(c, c->ca_pem, (int64_t)(wall_ms() / 1000), &names);
	if (n > 0)
		return err_set(err, EBUSY,
			"another CA, and it would cut off %zu nodes that have not got it, or whose "
			"certificates are of one that is not there any more: %.500s; take the "
			"former CAs back until `edgewayctl ca list` names nobody, or set "
			"tls.caForce to lose them",
			n, buf_str(&names));
	return 0;
}

static int
certs_load(struct certs *c, const struct certs_config *config, struct err *err)
{
	int rc = check_config(config, err);

	if (rc == 0)
		rc = config->ca[0] != '\0' ? given_ca(c, config, err) : own_ca(c, err);
	c->own_ca = config->ca[0] == '\0';
	if (rc == 0 && c->ca_key != NULL && (rc = pki_pair_check(c->ca_pem, c->ca_key, err)) < 0)
		rc = err_wrap(err, rc, "the CA's certificate and key do not belong together");
	if (rc == 0)
		rc = pki_cert_hash(c->ca_pem, c->ca_hash, err);
	if (rc == 0 && config->cert[0] != '\0')
		rc = given_cert(c, config, err);
	if (rc < 0 || (rc = ledger_open(&c->ledger, c->dir, err)) < 0)
		return rc;
	if (!config->ca_force && (rc = check_cut_off(c, err)) < 0)
		return rc;
	if (!config->shared)
		certs_accept_ca(c);
	return 0;
}

int
certs_open(struct certs **out, const struct certs_config *config, struct err *err)
{
	struct certs *c = xcalloc(1, sizeof *c);
	int rc;

	c->dir = xstrdup(config->data_dir);
	c->listen = xstrdup(config->listen);
	c->cluster_domain = xstrdup(config->cluster_domain != NULL ? config->cluster_domain : "");
	c->node_life_s = config->node_life_s > 0 ? config->node_life_s : CERTS_NODE_LIFE_S;
	for (size_t i = 0; config->names != NULL && config->names[i] != NULL; i++)
		names_add(&c->wanted, config->names[i]);
	if ((rc = certs_load(c, config, err)) < 0)
		certs_close(&c);
	*out = c;
	return rc;
}

void
certs_close(struct certs **out)
{
	struct certs *c = take_ptr(out);

	if (c == NULL)
		return;
	ledger_close(&c->ledger);
	names_fini(&c->wanted);
	names_fini(&c->more);
	names_fini(&c->current);
	free(c->dir);
	free(c->ca_pem);
	free(c->ca_key);
	free(c->cert);
	free(c->key);
	free(c->listen);
	free(c->cluster_domain);
	free(c->crl);
	free(c);
}

/* --- who has which CAs ---------------------------------------------------------------------- */

enum { CUT_OFF_NAMED = 20 };

struct cut_off {
	const char *now;
	char next[CA_LIST_TEXT];
	size_t n;
	struct buf *names;
};

static void
add_cut_off(void *arg, const char *node, const char *cas)
{
	struct cut_off *c = arg;

	if (ca_list_keeps(cas, c->now, c->next))
		return;
	if (c->n++ < CUT_OFF_NAMED)
		buf_printf(c->names, "%s%s", c->n > 1 ? ", " : "", node);
}

size_t
certs_cut_off(const struct certs *c, const char *ca_pem, int64_t now_s, struct buf *names)
{
	struct cut_off all = {.now = ledger_cas(c->ledger), .names = names};

	ca_list(all.next, ca_pem);
	if (strcmp(all.next, all.now) == 0)
		return 0;
	ledger_each_cas(c->ledger, now_s, add_cut_off, &all);
	if (all.n > CUT_OFF_NAMED)
		buf_printf(names, " and %zu more", all.n - CUT_OFF_NAMED);
	return all.n;
}

struct holders {
	const char *now;
	struct certs_holders n;
	size_t most;
	struct buf *lacking;
};

static void
add_holder(void *arg, const char *node, const char *cas)
{
	struct holders *h = arg;

	if (ca_list_is_current(cas, h->now)) {
		h->n.have++;
		return;
	}
	if (h->lacking != NULL && h->n.lack < h->most)
		buf_printf(h->lacking, "%s{\"node\":\"%s\",\"cas\":\"%s\"}",
			h->n.lack > 0 ? "," : "", node, cas);
	h->n.lack++;
}

struct certs_holders
certs_ca_holders(const struct certs *c, int64_t now_s, size_t most, struct buf *lacking)
{
	struct holders all = {.now = ledger_cas(c->ledger), .most = most, .lacking = lacking};

	ledger_each_cas(c->ledger, now_s, add_holder, &all);
	return all.n;
}

const char *
certs_ca_list(const struct certs *c)
{
	return ledger_cas(c->ledger);
}

int
certs_note_cas(struct certs *c, const char *node, const char *cert_pem, const char *cas)
{
	char signer[CA_LIST_TEXT];

	ca_list_of(signer, c->ca_pem, cert_pem);
	if (!ca_list_ok(cas) || !ca_list_same_first(cas, signer))
		return -EINVAL;
	return ledger_note_cas(c->ledger, node, cert_pem, cas);
}

const char *
certs_ca_pem(const struct certs *c)
{
	return c->ca_pem;
}

const char *
certs_ca_hash(const struct certs *c)
{
	return c->ca_hash;
}

static bool
is_address(const char *name)
{
	struct addr a;

	return addr_parse(&a, name, 1, NULL) == 0 && a.sa.sa_family != AF_UNIX;
}

size_t
certs_addresses(const struct certs *c, const char **to, size_t n)
{
	bool listen_told = !is_address(c->listen);
	size_t found = 0;

	for (size_t i = 0; i < c->wanted.n && found < n; i++) {
		if (!is_address(c->wanted.name[i]))
			continue;
		listen_told |= strcmp(c->wanted.name[i], c->listen) == 0;
		to[found++] = c->wanted.name[i];
	}
	if (found < n && !listen_told)
		to[found++] = c->listen;
	return found;
}

bool
certs_can_sign(const struct certs *c)
{
	return c->ca_key != NULL;
}

static struct certs_term
term_of(const char *cert)
{
	struct certs_term term = {0};
	auto_free char *name = NULL;
	int64_t from, to;

	if (pki_cert_info(cert, &name, &from, &to, NULL) < 0 ||
		pki_cert_serial(cert, term.serial, NULL) < 0)
		return term;
	term.from_s = from;
	term.to_s = to;
	return term;
}

/* After two thirds of its lifetime. */
static int64_t
renew_time(const struct certs_term *term)
{
	return term->from_s + (term->to_s - term->from_s) / 3 * 2;
}

void
certs_terms(const struct certs *c, struct certs_term *ca, struct certs_term *hub)
{
	*ca = term_of(c->ca_pem);
	ca->own = c->own_ca;
	*hub = c->term;
	hub->own = c->cert == NULL;
}

void
certs_use_names(struct certs *c, const struct names *names)
{
	names_fini(&c->more);
	for (size_t i = 0; i < names->n; i++)
		names_add(&c->more, names->name[i]);
}

static bool
names_have_ip(const struct names *names, const struct in6_addr *ip)
{
	struct in6_addr one;

	for (size_t i = 0; i < names->n; i++)
		if (ip_parse(names->name[i], &one) && memcmp(&one, ip, sizeof one) == 0)
			return true;
	return false;
}

bool
certs_known_as(const struct certs *c, struct http1_str host)
{
	return own_host(host, (const char *const *)c->current.name) ||
		own_host(host, (const char *const *)c->wanted.name) ||
		own_host(host, (const char *const *)c->more.name);
}

bool
certs_named(const struct certs *c, const struct in6_addr *ip)
{
	return names_have_ip(&c->wanted, ip) || names_have_ip(&c->more, ip);
}

bool
certs_renew_due(const struct certs *c, int64_t now_s)
{
	struct names now = {0};
	bool due;

	if (c->cert != NULL)
		return false;
	names_now(c, &now);
	due = now_s >= renew_time(&c->term) || !names_hold(&c->current, &now) ||
		certs_refuses_hub(c, c->term.serial);
	names_fini(&now);
	return due;
}

/* The order matters after a crash: without hub.names the files that exist are not used. */
static int
make_own(struct certs *c, char **cert, char **key, struct err *err)
{
	auto_free char *cert_path = xasprintf("%s/hub.pem", c->dir);
	auto_free char *key_path = xasprintf("%s/hub.key", c->dir);
	auto_free char *names_path = xasprintf("%s/hub.names", c->dir);
	struct pki_issue issue = {
		.ca_cert_pem = c->ca_pem,
		.ca_key_pem = c->ca_key,
		.common_name = "edgeway-hub",
		.server = true,
		.client = true, /* for connections to other replicas */
		.hub = true,
		.days = HUB_DAYS,
	};
	int rc;

	names_fini(&c->current);
	names_now(c, &c->current);
	issue.names = (const char *const *)c->current.name;
	unlink(names_path);
	if ((rc = pki_key_new(key, err)) < 0 || (rc = pki_sign_key(&issue, *key, cert, err)) < 0 ||
		(rc = write_pem(key_path, *key, 0600, err)) < 0 ||
		(rc = write_pem(cert_path, *cert, 0644, err)) < 0 ||
		(rc = names_write(names_path, c->ca_hash, &c->current, err)) < 0)
		return err_wrap(err, rc, "cannot make the hub's certificate");
	c->term = term_of(*cert);
	log_info("hub", "made the hub's certificate serial=%s names=%zu days=%d", c->term.serial,
		c->current.n, HUB_DAYS);
	return 0;
}

static bool
load_own(struct certs *c, int64_t now_s, char **cert, char **key)
{
	auto_free char *cert_path = xasprintf("%s/hub.pem", c->dir);
	auto_free char *key_path = xasprintf("%s/hub.key", c->dir);
	auto_free char *names_path = xasprintf("%s/hub.names", c->dir);

	names_fini(&c->current);
	names_read(names_path, c->ca_hash, &c->current);
	if (c->current.n == 0 || file_read(cert_path, PEM_MAX, cert, NULL) < 0 ||
		file_read(key_path, PEM_MAX, key, NULL) < 0 ||
		pki_pair_check(*cert, *key, NULL) < 0 ||
		!pki_cert_is_hub(*cert)) /* from a version without replicas */
		return false;
	c->term = term_of(*cert);
	return !certs_renew_due(c, now_s);
}

/* From the CA's key, which all replicas have; without it, from the hub's own. With the names that
 * the operator has given, or the certificate: a hub with others is not the one that nodes trust. */
static void
certs_serve_tickets(const struct certs *c, const char *own_key, struct ssl_ctx_st *ctx)
{
	uint8_t secret[PKI_TICKET_SECRET];
	auto_buf struct buf names;

	buf_init(&names, BUF_UNLIMITED);
	if (c->cert != NULL)
		buf_adds(&names, c->cert);
	for (size_t i = 0; c->cert == NULL && i < c->wanted.n; i++)
		buf_printf(&names, "%s\n", c->wanted.name[i]);
	pki_tickets_secret(
		c->ca_pem, c->ca_key != NULL ? c->ca_key : own_key, buf_str(&names), secret);
	pki_tickets_serve(ctx, secret);
}

int
certs_server_ctx(struct certs *c, int64_t now_s, struct ssl_ctx_st **ctx, struct err *err)
{
	auto_free char *cert = NULL, *key = NULL;
	int rc;

	if (c->cert != NULL) {
		c->term = term_of(c->cert);
		rc = pki_server_ctx(c->cert, c->key, c->ca_pem, ctx, err);
		if (rc == 0)
			certs_serve_tickets(c, c->key, *ctx);
		return rc;
	}
	if (!load_own(c, now_s, &cert, &key)) {
		free(take_ptr(&cert));
		free(take_ptr(&key));
		if ((rc = make_own(c, &cert, &key, err)) < 0)
			return rc;
	}
	rc = pki_server_ctx(cert, key, c->ca_pem, ctx, err);
	if (rc == 0)
		certs_serve_tickets(c, key, *ctx);
	return rc;
}

int
certs_client_ctx(struct certs *c, struct ssl_ctx_st **ctx, struct err *err)
{
	auto_free char *cert_path = xasprintf("%s/hub.pem", c->dir);
	auto_free char *key_path = xasprintf("%s/hub.key", c->dir);
	auto_free char *cert = NULL, *key = NULL;
	int rc;

	if (c->cert != NULL)
		return pki_client_ctx(c->ca_pem, c->cert, c->key, ctx, err);
	if ((rc = read_pem(cert_path, "the hub's certificate", &cert, err)) < 0 ||
		(rc = read_pem(key_path, "its key", &key, err)) < 0)
		return rc;
	return pki_client_ctx(c->ca_pem, cert, key, ctx, err);
}

int
certs_check_peers(const struct certs *c, struct err *err)
{
	if (c->cert == NULL || pki_cert_is_hub(c->cert))
		return 0;
	return err_set(err, EINVAL,
		"tls.cert proves nothing to other replicas: sign it with subjectAltName "
		"URI:" PKI_HUB_MARK
		" and extendedKeyUsage serverAuth,clientAuth, or leave out peers");
}

int
certs_issue(
	struct certs *c, const char *node, const char *csr_pem, char **cert_pem, struct err *err)
{
	auto_free char *uri = c->cluster_domain[0] != '\0'
		? xasprintf("spiffe://%s/node/%s", c->cluster_domain, node)
		: NULL;
	struct pki_issue issue = {
		.ca_cert_pem = c->ca_pem,
		.ca_key_pem = c->ca_key,
		.common_name = node,
		.uri = uri,
		.client = true,
		.life_s = c->node_life_s,
	};

	if (!certs_can_sign(c))
		return err_set(
			err, ENOTSUP, "the hub has no key of its CA (tls.caKey) and signs nothing");
	return pki_sign(&issue, csr_pem, cert_pem, err);
}

struct ledger *
certs_ledger(const struct certs *c)
{
	return c->ledger;
}

bool
certs_given(
	const struct certs *c, const char *node, const char *key_hash, int64_t now_s, char **cert)
{
	const struct ledger_key key = {.hash = key_hash, .ca_pem = c->ca_pem, .now_s = now_s};

	return ledger_given(c->ledger, node, &key, cert);
}

bool
certs_taken(const struct certs *c, const char *node)
{
	return ledger_taken(c->ledger, node);
}

bool
certs_shared(const struct certs *c)
{
	return ledger_roll(c->ledger) != NULL;
}

uint64_t
certs_changes(const struct certs *c)
{
	return ledger_changes(c->ledger);
}

size_t
certs_nodes(const struct certs *c, char ***names)
{
	return ledger_nodes(c->ledger, names);
}

bool
certs_refuses(const struct certs *c, const char *node, const char *serial)
{
	return revoked_refuses(ledger_registry(c->ledger), node, serial);
}

/* --- certificates of hubs ------------------------------------------------------------------- */

bool
certs_refuses_hub(const struct certs *c, const char *serial)
{
	return revoked_refuses_hub(ledger_registry(c->ledger), serial);
}

int
certs_revoke_hub(struct certs *c, const char *serial, int64_t now_s, struct err *err)
{
	bool own = strcmp(serial, c->term.serial) == 0;

	if (!certs_can_sign(c))
		return err_set(err, ENOTSUP,
			"nodes believe a list of revoked hubs that the CA has signed, and this hub "
			"has "
			"no key of its CA: set tls.caKey, or make a new CA");
	if (own && c->cert != NULL)
		return err_set(err, EBUSY,
			"this hub itself shows the certificate, which is tls.cert: put another one "
			"there, restart the hub, and revoke the former one then");
	return revoked_add_hub(ledger_registry(c->ledger), serial,
		own ? c->term.to_s : term_of(c->ca_pem).to_s, now_s, err);
}

const char *
certs_crl(struct certs *c)
{
	const struct records *hubs = revoked_hubs(ledger_registry(c->ledger));
	const char *serials[REVOKED_HUBS_MAX];
	struct err err = {0};

	if (hubs->n == 0 || !certs_can_sign(c))
		return "";
	if (c->crl != NULL && c->crl_changes == hubs->changes)
		return c->crl;
	free(take_ptr(&c->crl));
	for (size_t i = 0; i < hubs->n; i++)
		serials[i] = ((const struct record *)hubs->all[i])->key;
	if (pki_crl_new(&(struct pki_crl){.ca_pem = c->ca_pem,
				.ca_key_pem = c->ca_key,
				.serials = serials,
				.n = hubs->n},
		    &c->crl, &err) < 0)
		log_limited(LOG_LEVEL_ERROR, 1, "hub", "nodes are not told of revoked hubs: %s",
			err.text);
	c->crl_changes = hubs->changes;
	return c->crl != NULL ? c->crl : "";
}

void
certs_revoked_write(const struct certs *c, struct buf *out)
{
	revoked_write(ledger_registry(c->ledger), out);
}

bool
certs_node_info(
	const struct certs *c, const char *node, char serial[PKI_SERIAL_TEXT], int64_t *not_after_s)
{
	return ledger_info(c->ledger, node, serial, not_after_s);
}

uint64_t
certs_node_life_s(const struct certs *c)
{
	return c->node_life_s;
}

bool
certs_node_revoked(const struct certs *c, const char *node)
{
	char serial[PKI_SERIAL_TEXT];
	int64_t until;

	return certs_refuses(c, node, "") && certs_node_info(c, node, serial, &until) &&
		certs_refuses(c, node, serial);
}

size_t
certs_revoked_count(const struct certs *c)
{
	return registry_list(ledger_registry(c->ledger), REGISTRY_REVOKED)->n;
}
