#include "hub/identity/approvals_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/figures.h"
#include "base/core/hash.h"
#include "model/check.h"
#include "model/json.h"

/* --- nodes ask ------------------------------------------------------------------------------ */

static const char *
host_end(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon != NULL ? colon : address + strlen(address);
}

static bool
is_pending(const struct held *h)
{
	return h->csr.state == CSR_PENDING && (h->asked || h->csr.ours) && !h->given_up;
}

uint64_t
approvals_source(const char *address)
{
	size_t len = strlen(address);
	char plain[INET6_ADDRSTRLEN];
	struct in6_addr ip;

	if (address[0] == '[' && address[len - 1] == ']') {
		address++;
		len -= 2;
	}
	snprintf(plain, sizeof plain, "%.*s", (int)MIN(len, sizeof plain - 1), address);
	if (!ip_parse(plain, &ip))
		return hash64(address, len, 0);
	return hash64(&ip, IN6_IS_ADDR_V4MAPPED(&ip) ? sizeof ip : sizeof ip / 2, 1);
}

static size_t
count_pending(const struct approvals *a)
{
	size_t n = 0;

	for (const struct held *h = a->held; h != NULL; h = h->next)
		n += is_pending(h);
	return n;
}

/* How many of them are for names that hold a certificate. */
static size_t
approvals_count_replacements(const struct approvals *a)
{
	size_t n = 0;

	for (const struct held *h = a->held; h != NULL; h = h->next)
		n += is_pending(h) && h->csr.replaces;
	return n;
}

static size_t
approvals_count_from(const struct approvals *a, uint64_t source)
{
	size_t n = 0;

	for (const struct held *h = a->held; h != NULL; h = h->next)
		n += is_pending(h) && h->source == source;
	return n;
}

/* --- requests that lose their place --------------------------------------------------------- */

/* The request whose node has not asked for the longest time, at least APPROVALS_STALE_MS. source
 * NULL: of any address. */
static struct held *
approvals_find_stale(const struct approvals *a, const uint64_t *source)
{
	uint64_t now = loop_now_ms(a->config.loop);
	struct held *found = NULL;

	for (struct held *h = a->held; h != NULL; h = h->next)
		if (is_pending(h) && now - h->asked_ms >= APPROVALS_STALE_MS &&
			(source == NULL || h->source == *source) &&
			(found == NULL || h->asked_ms < found->asked_ms))
			found = h;
	return found;
}

/* The oldest request (by its node's last question) of the address that has the most, if it has at
 * least two more than `mine`. */
static struct held *
approvals_find_greedy(const struct approvals *a, size_t mine)
{
	struct held *found = NULL;
	size_t most = mine + 1;

	for (struct held *h = a->held; h != NULL; h = h->next) {
		size_t n = is_pending(h) ? approvals_count_from(a, h->source) : 0;

		if (n > most || (n == most && found != NULL && h->asked_ms < found->asked_ms)) {
			most = n;
			found = h;
		}
	}
	return found;
}

const char *
approvals_make_room(struct approvals *a, const char *host)
{
	uint64_t source = approvals_source(host);
	size_t mine = approvals_count_from(a, source);
	struct held *victim;

	if (mine >= APPROVALS_ADDRESS_MAX) {
		if ((victim = approvals_find_stale(a, &source)) == NULL)
			return "too many requests from this address wait for approval: approve or "
			       "deny some (kubectl get csr)";
	} else if (count_pending(a) < APPROVALS_PENDING_MAX) {
		return NULL;
	} else if ((victim = approvals_find_stale(a, NULL)) == NULL &&
		(victim = approvals_find_greedy(a, mine)) == NULL) {
		return "too many requests wait for approval: approve or deny some (kubectl get "
		       "csr)";
	}
	approvals_give_up(a, victim);
	return NULL;
}

static void approvals_ask_refuse(struct approval_answer *answer, const char *fmt, ...)
	printf_like(2, 3);

static void
approvals_ask_refuse(struct approval_answer *answer, const char *fmt, ...)
{
	va_list args;

	answer->result = APPROVAL_REFUSED;
	va_start(args, fmt);
	vsnprintf(answer->why, sizeof answer->why, fmt, args);
	va_end(args);
}

static void
answer_known(const struct approvals *a, const struct held *h, struct approval_answer *answer)
{
	const struct csr *csr = &h->csr;
	char serial[PKI_SERIAL_TEXT];

	switch (csr->state) {
	case CSR_PENDING:
	case CSR_APPROVED:
		answer->result = APPROVAL_WAITS;
		break;
	case CSR_ISSUED:
		answer->result = APPROVAL_GIVEN;
		if (!certs_taken(a->config.certs, csr->node))
			approvals_ask_refuse(answer,
				"the certificate of the request %s is not known to this hub: try "
				"again, or delete the request (kubectl delete csr NAME)",
				csr->name);
		else if (pki_cert_serial(csr->cert, serial, NULL) < 0 ||
			certs_refuses(a->config.certs, csr->node, serial))
			approvals_ask_refuse(answer,
				"the certificate of the request %s was revoked: make a token with "
				"`edgewayctl token create --node NAME`, or remove node.key of this "
				"node, so that it asks with another key",
				csr->name);
		else
			answer->cert = xstrdup(csr->cert);
		break;
	case CSR_DENIED:
		approvals_ask_refuse(answer,
			"an operator denied the request: %s; delete it (kubectl delete csr NAME) "
			"to be asked again",
			csr->why[0] != '\0' ? csr->why : csr->name);
		break;
	case CSR_FAILED:
		approvals_ask_refuse(answer, "the request cannot be signed: %s", csr->why);
		break;
	}
}

const char *
approvals_unread(const struct approvals *a)
{
	for (size_t i = 0; i < ARRAY_LEN(a->lists); i++) {
		const char *problem = follow_problem(a->lists[i].follow);

		if (problem[0] != '\0')
			return problem;
	}
	return "";
}

static const char *
why_not_ask(struct approvals *a, enum ledger_holder holder, const char *host)
{
	if (a->problem[0] != '\0')
		return a->problem;
	if (approvals_unread(a)[0] != '\0')
		return approvals_unread(a);
	if (!a->lists[false].listed || !a->lists[true].listed)
		return "CertificateSigningRequests have not been read yet";
	if (holder == LEDGER_REVOKED)
		return "the certificate of this key was revoked: make a token with `edgewayctl "
		       "token create --node NAME`, or remove node.key of this node, so that it "
		       "asks with another key";
	return approvals_make_room(a, host);
}

/* Returns true if the request is of no use to a node that needs the other signer. */
static bool
approvals_is_void(const struct csr *csr)
{
	return csr->state == CSR_PENDING || csr->state == CSR_APPROVED || csr->state == CSR_FAILED;
}

/* replaces: another key holds the name. */
static struct held *
find_asked(const struct approvals *a, const char *node, const char *key, bool replaces)
{
	for (struct held *h = a->held; h != NULL; h = h->next) {
		if (strcmp(h->csr.key, key) == 0 && strcmp(h->csr.node, node) == 0 &&
			!(replaces && !h->csr.replaces && approvals_is_void(&h->csr)))
			return h;
	}
	return NULL;
}

static enum ledger_holder
approvals_holder(const struct approvals *a, const char *node, const char *key)
{
	return ledger_holder(certs_ledger(a->config.certs), node, key);
}

char *
approvals_objection(const struct approvals *a, const struct csr *csr)
{
	switch (approvals_holder(a, csr->node, csr->key)) {
	case LEDGER_REVOKED:
		return xstrdup("the certificate of this key was revoked: only another key can be "
			       "signed for the name");
	case LEDGER_ANOTHER:
		return csr->replaces
			? NULL
			: xstrdup("the name holds a certificate of another key by now: such a name "
				  "is given by the signer " CSR_SIGNER_REPLACEMENT
				  ", for which the node asks by itself");
	case LEDGER_FREE:
	case LEDGER_OWN:
		break;
	}
	return NULL;
}

bool
approvals_rivals(const struct approvals *a, const struct csr *csr)
{
	if (csr->node[0] == '\0')
		return false;
	for (const struct held *h = a->held; h != NULL; h = h->next) {
		if ((h->csr.state == CSR_PENDING || h->csr.state == CSR_APPROVED) &&
			strcmp(h->csr.node, csr->node) == 0 && strcmp(h->csr.name, csr->name) != 0)
			return true;
	}
	return false;
}

/* The error of the API server, if it rejected the request lately; else "". */
static const char *
why_refused(const struct approvals *a, const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(a->refused); i++) {
		const struct refused *r = &a->refused[i];

		if (strcmp(r->name, name) == 0 && loop_now_ms(a->config.loop) < r->until_ms)
			return r->why;
	}
	return "";
}

/* The certificate was signed for this very key, but the request was deleted before the node came
 * for it. */
static bool
answer_recorded(const struct approvals *a, const char *node, const char *key,
	struct approval_answer *answer)
{
	auto_free char *cert = NULL;

	if (!certs_given(a->config.certs, node, key, (int64_t)(wall_ms() / 1000), &cert) ||
		cert == NULL)
		return false;
	answer->result = APPROVAL_WAITS; /* until the replicas know the certificate */
	if (a->claim != NULL)
		return true;
	answer->result = APPROVAL_GIVEN;
	answer->cert = take_ptr(&cert);
	return true;
}

/* Adds a new request, to be written in the next step. */
static struct held *
pass_on(struct approvals *a, const char *node, const char *key, char **request, char **address,
	bool replaces)
{
	struct held *h = approvals_add(a);

	h->asked = true;
	csr_name(h->csr.name, node, key, replaces);
	memcpy(h->csr.key, key, sizeof h->csr.key);
	h->csr.request = take_ptr(request);
	h->csr.node = xstrdup(node);
	h->csr.cert = xstrdup("");
	h->csr.why = xstrdup("");
	h->csr.address = take_ptr(address);
	h->source = approvals_source(h->csr.address);
	h->csr.replaces = replaces;
	h->round = follow_round(a->lists[replaces].follow);
	timer_start(a->timer, 0, 0);
	return h;
}

/* The text for the operator in `kubectl describe csr`; barred: the message of join_bars_fn, "":
 * none. NULL: no text. */
static char *
approvals_warning(const struct approvals *a, const char *node, bool replaces, const char *barred)
{
	char serial[PKI_SERIAL_TEXT] = "";
	auto_buf struct buf b;
	int64_t until_s = 0;

	buf_init(&b, BUF_UNLIMITED);
	if (replaces && certs_node_info(a->config.certs, node, serial, &until_s)) {
		buf_printf(&b, "%s holds a certificate of another key (serial number %s, until ",
			node, serial);
		buf_add_utc(&b, until_s);
		if (certs_refuses(a->config.certs, node, serial))
			buf_adds(&b, ", revoked): ");
		else
			buf_printf(&b,
				"), which counts until then or `edgewayctl node revoke %s`: ",
				node);
		buf_adds(&b,
			"approve only if the node was installed anew or revoked, and its own log "
			"names this request");
	} else if (replaces) {
		buf_printf(&b, "%s holds a certificate of another key", node);
	}
	if (barred[0] != '\0')
		buf_printf(&b, "%s%s", buf_len(&b) > 0 ? "; " : "", barred);
	return buf_len(&b) > 0 ? xstrdup(buf_str(&b)) : NULL;
}

void
approvals_ask(struct approvals *a, const char *node, const char *address, const char *csr_pem,
	struct approval_answer *answer)
{
	auto_free char *host = xstrndup(address, (size_t)(host_end(address) - address));
	auto_free char *name = NULL, *plain = NULL;
	enum ledger_holder holder;
	struct held *known;
	char key[PKI_HASH_TEXT];
	struct err err = {0};
	const char *why;
	bool replaces;
	int rc;

	*answer = (struct approval_answer){0};
	if (pki_csr_info(csr_pem, &name, key, &err) < 0 || strcmp(name, node) != 0 ||
		pki_csr_plain(csr_pem, &plain, &err) < 0) {
		approvals_ask_refuse(answer, "%s",
			err.text[0] != '\0' ? err.text
					    : "the request is for another name, or one longer than "
					      "64 bytes, which needs a token");
		return;
	}
	holder = approvals_holder(a, node, key);
	replaces = holder == LEDGER_ANOTHER;
	csr_name(answer->name, node, key, replaces);
	if ((known = find_asked(a, node, key, replaces)) != NULL) {
		known->asked_ms = loop_now_ms(a->config.loop);
		snprintf(answer->name, sizeof answer->name, "%s", known->csr.name);
		answer_known(a, known, answer);
		return;
	}
	if (answer_recorded(a, node, key, answer))
		return;
	if ((why = why_refused(a, answer->name))[0] != '\0') {
		approvals_ask_refuse(answer, "%s", why);
		return;
	}
	/* If the cluster does not know the name, or another node that is away holds it, the request
	 * carries a warning and the operator decides. Checked before a place is made: a node that
	 * may not ask must not take a place. */
	if ((rc = a->config.bars(a->config.bars_arg, node, &err)) < 0 && rc != -ENOENT &&
		!(rc == -EEXIST && replaces)) {
		approvals_ask_refuse(answer, "%s", err.text);
		return;
	}
	if ((why = why_not_ask(a, holder, host)) != NULL) {
		approvals_ask_refuse(answer, "%s", why);
		return;
	}
	answer->result = APPROVAL_WAITS;
	pass_on(a, node, key, &plain, &host, replaces)->csr.warning =
		approvals_warning(a, node, replaces, rc < 0 ? err.text : "");
}

/* --- telling -------------------------------------------------------------------------------- */

static const char *
problem_of(const struct approvals *a)
{
	return a->problem[0] != '\0' ? a->problem : approvals_unread(a);
}

void
approvals_state(const struct approvals *a, struct buf *out)
{
	const char *comma = "";

	buf_printf(out, "{\"pending\":%zu,\"replacements\":%zu,\"problem\":", count_pending(a),
		approvals_count_replacements(a));
	json_add_text(out, problem_of(a));
	buf_adds(out, ",\"requests\":[");
	for (const struct held *h = a->held; h != NULL; h = h->next) {
		buf_printf(out, "%s{\"name\":", comma);
		json_add_text(out, h->csr.name);
		buf_adds(out, ",\"node\":");
		json_add_text(out, h->csr.node);
		buf_printf(out, ",\"state\":\"%s\",\"replaces\":%s,\"address\":",
			csr_state_text(h->csr.state), h->csr.replaces ? "true" : "false");
		json_add_text(out, h->csr.address);
		buf_adds(out, ",\"why\":");
		json_add_text(out, h->csr.why);
		buf_adds(out, "}");
		comma = ",";
	}
	buf_adds(out, "]}");
}

static const struct figure approvals_figures[] = {
	FIGURE(struct approvals, issued, "edgeway_hub_approvals_total", "result=\"issued\"",
		"Requests for certificates that this replica signed, refused to sign, saw denied, "
		"or "
		"gave up in favour of others.",
		NULL),
	FIGURE_ALSO(struct approvals, failed, "result=\"failed\"", NULL),
	FIGURE_ALSO(struct approvals, denied, "result=\"denied\"", NULL),
	FIGURE_ALSO(struct approvals, expired, "result=\"expired\"", NULL),
};

void
approvals_metrics(const struct approvals *a, struct metrics *to)
{
	metric_gauge(to, "edgeway_hub_approvals_pending",
		"Nodes' requests for certificates that wait for kubectl certificate approve.", NULL,
		(double)count_pending(a));
	metric_gauge(to, "edgeway_hub_approvals_replacements_pending",
		"Those of them for names that hold a certificate of another key.", NULL,
		(double)approvals_count_replacements(a));
	figures_metrics(FIGURES(approvals_figures), a, to);
}
