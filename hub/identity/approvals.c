/* One request to the API server at a time. Each step is chosen from the list of known requests, not
 * from a queue: so after an error, or a change that the watch reports, the next step simply decides
 * again. */
#include "hub/identity/approvals_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"

enum {
	ANSWER_MS = 8000,
	PROBLEM_MS = 20 * 1000,
	/* each replica signs after a random part of this, so that mostly only one of them signs */
	TURNS_MS = 2000,
};

static void approvals_work(void *arg);

/* --- known requests ------------------------------------------------------------------------- */

static struct held *
approvals_find(const struct approvals *a, const char *name)
{
	for (struct held *h = a->held; h != NULL; h = h->next) {
		if (strcmp(h->csr.name, name) == 0)
			return h;
	}
	return NULL;
}

static void
approvals_drop(struct approvals *a, struct held **at)
{
	struct held *h = *at;

	*at = h->next;
	a->n_held--;
	csr_fini(&h->csr);
	free(h->cert);
	free(h);
}

struct held *
approvals_add(struct approvals *a)
{
	struct held *h = xcalloc(1, sizeof *h);

	h->next = a->held;
	h->asked_ms = loop_now_ms(a->config.loop);
	a->held = h;
	a->n_held++;
	return h;
}

static void
remove_named(struct approvals *a, const char *name)
{
	for (struct held **at = &a->held; *at != NULL; at = &(*at)->next) {
		if (strcmp((*at)->csr.name, name) == 0) {
			approvals_drop(a, at);
			return;
		}
	}
}

void
approvals_give_up(struct approvals *a, struct held *h)
{
	log_limited(LOG_LEVEL_WARN, 20, "hub",
		"a request that nobody approved gives way to others request=%s node=%s address=%s",
		h->csr.name, h->csr.node, h->csr.address);
	a->expired++;
	if (h->asked && !h->sent && (a->step != STEP_CREATE || strcmp(a->at, h->csr.name) != 0)) {
		remove_named(a, h->csr.name);
		return;
	}
	h->given_up = true;
	timer_start(a->timer, 0, 0);
}

/* Logs the state of a request for the operator. */
static void
approvals_say(struct approvals *a, const struct csr *csr)
{
	struct err err = {0};
	int rc;

	switch (csr->state) {
	case CSR_PENDING:
		log_limited(LOG_LEVEL_INFO, 20, "hub",
			"a node asks for its certificate: compare the name with the one in its log "
			"and run `kubectl certificate approve %s`, or deny node=%s address=%s",
			csr->name, csr->node, csr->address);
		rc = csr->node[0] != '\0' ? a->config.bars(a->config.bars_arg, csr->node, &err) : 0;
		if (rc < 0 && rc != -EAGAIN)
			log_limited(LOG_LEVEL_WARN, 20, "hub",
				"look twice before you approve: %s request=%s node=%s", err.text,
				csr->name, csr->node);
		if (csr->replaces)
			log_limited(LOG_LEVEL_WARN, 20, "hub",
				"the request is for a name that another key holds a certificate "
				"for: approve it only if this node was installed anew or revoked, "
				"and its own log names this request=%s node=%s address=%s",
				csr->name, csr->node, csr->address);
		if (approvals_rivals(a, csr))
			log_limited(LOG_LEVEL_WARN, 20, "hub",
				"another request is for the same node: approve none but the one "
				"that the node's own log names, deny the others request=%s node=%s "
				"address=%s",
				csr->name, csr->node, csr->address);
		break;
	case CSR_DENIED:
	case CSR_FAILED:
		a->denied += csr->state == CSR_DENIED;
		log_limited(LOG_LEVEL_INFO, 20, "hub",
			"a request for a certificate was %s request=%s node=%s reason=\"%s\"",
			csr->state == CSR_DENIED ? "denied" : "not signed", csr->name, csr->node,
			csr->why);
		break;
	case CSR_APPROVED:
	case CSR_ISSUED:
		break;
	}
}

/* If another request, with another key or node, has taken the object's name, forgets the
 * certificate that was signed for the former one. */
static void
forget_other_key(struct held *h, const struct csr *csr)
{
	if (strcmp(h->csr.key, csr->key) == 0 && strcmp(h->csr.node, csr->node) == 0)
		return;
	free(take_ptr(&h->cert));
	h->due_ms = 0;
	kube_wait_reset(&h->wait);
	h->given_up = false;
}

static void
on_object(void *arg, const struct tree_node *object, bool gone)
{
	const struct approvals_list *list = arg;
	struct approvals *a = list->approvals;
	struct held *h;
	struct csr csr;

	if (!csr_read(&csr, object))
		return;
	h = approvals_find(a, csr.name);
	if (gone || (h == NULL && a->n_held >= APPROVALS_HELD_MAX)) {
		if (!gone && !a->overflow_said)
			log_error("hub",
				"more than %d CertificateSigningRequests of " CSR_SIGNER
				" and " CSR_SIGNER_REPLACEMENT
				": the others are not looked at; delete some",
				APPROVALS_HELD_MAX);
		a->overflow_said |= !gone;
		remove_named(a, csr.name);
		csr_fini(&csr);
		return;
	}
	if (h == NULL || h->asked || h->csr.state != csr.state)
		approvals_say(a, &csr);
	if (h == NULL)
		h = approvals_add(a);
	else
		forget_other_key(h, &csr);
	h->asked = false;
	h->round = follow_round(list->follow);
	if (csr.state != CSR_APPROVED)
		free(take_ptr(&h->cert));
	csr_fini(&h->csr);
	h->csr = csr;
	h->source = approvals_source(csr.address);
}

static void
on_listed(void *arg)
{
	struct approvals_list *list = arg;
	struct approvals *a = list->approvals;

	list->listed = true;
	for (struct held **at = &a->held; *at != NULL;) {
		struct held *h = *at;

		if (h->csr.replaces == list->replaces && h->round != follow_round(list->follow) &&
			!(h->asked && !h->sent))
			approvals_drop(a, at);
		else
			at = &h->next;
	}
}

/* --- one step at a time --------------------------------------------------------------------- */

static void
approvals_finish(struct approvals *a, uint64_t wait_ms)
{
	a->step = STEP_NONE;
	timer_start(a->timer, wait_ms, 0);
}

static void
approvals_trouble(struct approvals *a, const char *why)
{
	if (strcmp(why, a->problem) != 0)
		log_limited(LOG_LEVEL_WARN, 20, "kubernetes", "%s", why);
	snprintf(a->problem, sizeof a->problem, "%s", why);
	a->problem_ms = loop_now_ms(a->config.loop);
	approvals_finish(a, kube_wait_ms(&a->wait, NULL));
}

static void
approvals_well(struct approvals *a)
{
	kube_wait_reset(&a->wait);
	a->problem[0] = '\0';
	approvals_finish(a, 1);
}

static void
describe_refusal(const struct https_answer *answer, char *why, size_t size)
{
	snprintf(why, size, "the API server refuses a CertificateSigningRequest: %d %.200s",
		answer->status, answer->body);
}

static void
failed_answer(struct approvals *a, const struct https_answer *answer)
{
	char why[sizeof a->problem];

	follow_describe(answer, "CertificateSigningRequests",
		"what deploy/kubernetes/rbac-approval.yaml has: create, list and watch on "
		"certificatesigningrequests, patch on their status, sign on the signers " CSR_SIGNER
		" and " CSR_SIGNER_REPLACEMENT,
		why, sizeof why);
	if (answer->status / 100 == 4 && answer->status != 403)
		describe_refusal(answer, why, sizeof why);
	approvals_trouble(a, why);
}

/* Returns true if only this request is at fault: the others must not be delayed. */
static bool
is_its_fault(const struct https_answer *answer)
{
	return answer->status == 400 || answer->status == 413 || answer->status == 422;
}

/* Stores the reason for the node, which will ask again. */
static void
approvals_refused(struct approvals *a, const struct https_answer *answer)
{
	struct refused *r = &a->refused[a->next_refused++ % APPROVALS_REFUSED_MAX];

	memcpy(r->name, a->at, sizeof r->name);
	describe_refusal(answer, r->why, sizeof r->why);
	r->until_ms = loop_now_ms(a->config.loop) + APPROVALS_REFUSED_MS;
	log_limited(LOG_LEVEL_WARN, 20, "hub", "a node's request is not passed on request=%s: %s",
		r->name, r->why);
	a->failed++;
	approvals_well(a);
}

static int
on_data(void *arg, const char *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return 0; /* the watch reports the object */
}

static void
on_created(void *arg, const struct https_answer *answer)
{
	struct approvals *a = arg;
	struct held *h = approvals_find(a, a->at);

	a->request = NULL;
	if (answer->status == 201 || answer->status == 409) {
		if (h != NULL)
			h->sent = true;
		approvals_well(a);
		return;
	}
	/* The node asks again and then gets the reason. */
	if (h != NULL && h->asked)
		remove_named(a, a->at);
	if (is_its_fault(answer))
		approvals_refused(a, answer);
	else
		failed_answer(a, answer);
}

/* Delays the request until after the next step: others must not wait for one that fails
 * repeatedly. */
static void
put_off(const struct approvals *a, struct held *h)
{
	h->due_ms = loop_now_ms(a->config.loop) + KUBE_WAIT_MOST_MS + kube_wait_ms(&h->wait, NULL);
}

static void
on_patched(void *arg, const struct https_answer *answer)
{
	struct approvals *a = arg;
	struct held *h = approvals_find(a, a->at);
	/* the watch may have reported the result already, which changes a->gives */
	bool gives = a->gives;

	a->request = NULL;
	/* Not failures, since the object has changed and the watch reports it; 422 is the failed
	 * version test of a JSON patch. */
	if (answer->status != 200 && answer->status != 409 && answer->status != 404 &&
		(answer->status != 422 || gives)) {
		failed_answer(a, answer);
		if (h != NULL && answer->status != 0)
			put_off(a, h);
		return;
	}
	if (h != NULL)
		memcpy(h->tried, a->version, sizeof h->tried);
	if (answer->status == 200) {
		a->issued += gives;
		a->failed += !gives && (h == NULL || !h->given_up);
	}
	if (answer->status == 200 && gives)
		log_info("hub", "signed what was approved request=%s", a->at);
	approvals_well(a);
}

static void
send_step(struct approvals *a, const char *method, const char *path, const char *type,
	struct buf *body)
{
	const struct https_call call = {
		.method = method,
		.path = path,
		.body = buf_str(body),
		.type = type,
		.silence_ms = ANSWER_MS,
		.data = on_data,
		.done = a->step == STEP_CREATE ? on_created : on_patched,
		.arg = a,
	};

	a->request = kube_api_start(a->config.api, &call);
}

static void
approvals_create(struct approvals *a, const struct held *h)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	csr_build(&b, &h->csr);
	a->step = STEP_CREATE;
	send_step(a, "POST", CSR_PATH, "application/json", &b);
}

static void
write_status(struct approvals *a, const struct held *h)
{
	auto_free char *path = xasprintf(CSR_PATH "/%s/status", h->csr.name);
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	a->step = STEP_WRITE;
	a->gives = approvals_gives(h);
	memcpy(a->version, h->csr.version, sizeof a->version);
	if (approvals_yields(h)) {
		csr_build_given_up(&b, &h->csr);
		send_step(a, "PATCH", path, "application/merge-patch+json", &b);
	} else if (a->gives) {
		csr_build_issued(&b, &h->csr, h->cert);
		send_step(a, "PATCH", path, "application/merge-patch+json", &b);
	} else {
		csr_build_failed(&b, &h->csr);
		send_step(a, "PATCH", path, "application/json-patch+json", &b);
	}
}

static int
approvals_record(const struct approvals *a, struct held *h, struct err *err)
{
	int rc = ledger_record(certs_ledger(a->config.certs), h->csr.node, h->cert, err);

	h->recorded = rc == 0;
	return rc;
}

static void
on_claimed(void *arg, int rc, const char *why)
{
	struct approvals *a = arg;
	struct held *h = approvals_find(a, a->at);
	bool current = h != NULL && h->cert != NULL && h->csr.state == CSR_APPROVED;
	struct err err = {0};

	a->claim = NULL;
	/* deleted, changed, or another key's name by now: the next step starts with its new
	 * state */
	if (rc == -EEXIST || (rc == 0 && !current)) {
		if (current)
			free(take_ptr(&h->cert));
		approvals_well(a);
		return;
	}
	if (rc == 0 && !h->recorded && (rc = approvals_record(a, h, &err)) < 0)
		why = err.text;
	if (rc < 0)
		approvals_trouble(a, why);
	else
		write_status(a, h);
}

/* What was recorded before is told to the other replicas; else the name is claimed from them. */
static int
approvals_claim(struct approvals *a, const struct held *h, struct err *err)
{
	struct ledger *ledger = certs_ledger(a->config.certs);
	struct share_wish wish = {
		.node = h->csr.node, .recorded = h->recorded, .own_name = !h->recorded};
	int rc = ledger_entry(ledger, &wish.entry, h->cert, err);

	/* If the name was revoked before, the claim also says that the new serial number is
	 * valid. */
	if (rc == 0 && !h->recorded)
		rc = revoked_sign(ledger_registry(ledger), wish.node, wish.entry.serial, err);
	if (rc == 0) {
		a->step = STEP_CLAIM;
		a->claim = share_claim(a->config.share, &wish, on_claimed, a);
	}
	return rc;
}

/* A replacement takes the name from whoever holds it, and is recorded at once; any other request
 * gets only a name that no replica has given to another key. */
static void
approvals_sign(struct approvals *a, struct held *h)
{
	bool shared = a->config.share != NULL;
	struct err err = {0};
	int rc = 0;

	if (h->cert == NULL) {
		rc = certs_issue(a->config.certs, h->csr.node, h->csr.request, &h->cert, &err);
		h->recorded = false;
	}
	if (rc == 0 && (!shared || h->csr.replaces))
		rc = approvals_record(a, h, &err);
	if (rc == 0 && shared)
		rc = approvals_claim(a, h, &err);
	if (rc < 0) {
		free(take_ptr(&h->cert));
		approvals_trouble(a, err.text);
	} else if (!shared) {
		write_status(a, h);
	}
}

static uint64_t
draw_turn(const struct approvals *a)
{
	uint32_t random;

	random_bytes(&random, sizeof random);
	return loop_now_ms(a->config.loop) + (a->config.share != NULL ? random % TURNS_MS : 0);
}

/* Returns true if this hub should handle the request now. *wait_ms: reduced to the time until
 * then. */
static bool
is_due(const struct approvals *a, struct held *h, uint64_t *wait_ms)
{
	uint64_t now = loop_now_ms(a->config.loop);

	if ((h->csr.state != CSR_APPROVED && !approvals_yields(h)) || h->asked ||
		strcmp(h->tried, h->csr.version) == 0)
		return false;
	if (h->due_ms == 0)
		h->due_ms = draw_turn(a);
	if (h->due_ms <= now)
		return true;
	*wait_ms = MIN(*wait_ms, h->due_ms - now);
	return false;
}

/* A join claims the same name: its result decides whose that is. */
static void
approvals_wait_for_claim(struct approvals *a, struct held *h)
{
	put_off(a, h);
	approvals_well(a);
}

static void
approvals_begin(struct approvals *a, struct held *h)
{
	snprintf(a->at, sizeof a->at, "%s", h->csr.name);
	if (h->asked)
		approvals_create(a, h);
	else if (h->csr.wrong != NULL || approvals_gives(h) || approvals_yields(h) ||
		(h->csr.wrong = approvals_objection(a, &h->csr)) != NULL)
		write_status(a, h);
	else if (a->config.share != NULL && share_claim_pends(a->config.share, h->csr.node))
		approvals_wait_for_claim(a, h);
	else
		approvals_sign(a, h);
}

/* Clears the last problem, but keeps it for some time after the cause is gone, since the node asks
 * again. Returns how long it stays, or UINT64_MAX. */
static uint64_t
forget_problem(struct approvals *a)
{
	uint64_t now = loop_now_ms(a->config.loop), until = a->problem_ms + PROBLEM_MS;

	if (a->problem[0] == '\0')
		return UINT64_MAX;
	if (now < until)
		return until - now;
	a->problem[0] = '\0';
	return UINT64_MAX;
}

static void
approvals_work(void *arg)
{
	struct approvals *a = arg;
	uint64_t wait_ms = UINT64_MAX;

	if (a->step != STEP_NONE)
		return;
	for (struct held *h = a->held; h != NULL; h = h->next) {
		if ((h->asked && !h->sent) || is_due(a, h, &wait_ms)) {
			approvals_begin(a, h);
			return;
		}
	}
	kube_wait_reset(&a->wait);
	wait_ms = MIN(wait_ms, forget_problem(a));
	if (wait_ms != UINT64_MAX)
		timer_start(a->timer, wait_ms, 0);
}

static void
on_told(void *arg)
{
	struct approvals *a = ((const struct approvals_list *)arg)->approvals;

	if (a->step == STEP_NONE && a->wait.failures == 0)
		approvals_work(a);
}

/* --- start and stop ------------------------------------------------------------------------- */

#define OF_SIGNER CSR_PATH "?fieldSelector=spec.signerName%3Dedgeway.io%2Fagent"

static void
approvals_follow(struct approvals *a, bool replaces)
{
	struct approvals_list *list = &a->lists[replaces];
	const struct follow_config follow = {
		.loop = a->config.loop,
		.api = a->config.api,
		.path = replaces ? OF_SIGNER "-replacement" : OF_SIGNER,
		.what = "CertificateSigningRequests",
		.rights = "the verbs list and watch on certificatesigningrequests "
			  "(deploy/kubernetes/rbac-approval.yaml)",
		.object = on_object,
		.listed = on_listed,
		.told = on_told,
		.arg = list,
	};

	*list = (struct approvals_list){.approvals = a, .replaces = replaces};
	list->follow = follow_start(&follow);
}

struct approvals *
approvals_start(const struct approvals_config *config)
{
	struct approvals *a = xcalloc(1, sizeof *a);

	a->config = *config;
	a->timer = timer_new(config->loop, approvals_work, a);
	approvals_follow(a, false);
	approvals_follow(a, true);
	return a;
}

void
approvals_stop(struct approvals **out)
{
	struct approvals *a = take_ptr(out);

	if (a == NULL)
		return;
	for (size_t i = 0; i < ARRAY_LEN(a->lists); i++)
		follow_stop(&a->lists[i].follow);
	https_stop(&a->request);
	if (a->config.share != NULL)
		share_unclaim(a->config.share, &a->claim);
	timer_free(&a->timer);
	while (a->held != NULL)
		approvals_drop(a, &a->held);
	free(a);
}
