#include "model/route_regex.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/*
 * The interpreter, not the JIT: the agent has no memory that is writable and executable, and the
 * interpreter's limits count steps, which a JIT's do not. Heap frames live in the match data, so
 * that a thread allocates them once.
 */

struct route_regex {
	pcre2_code *code;
};

struct route_regex_scratch {
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

/* The text decides nothing but what matches: no UTF mode, no (*UTF), no callouts' effects. */
enum {
	OPTIONS = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UTF |
		PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE
};

static int
regex_compile(pcre2_code **code, const char *text, struct err *err)
{
	uint8_t why[128] = "";
	size_t len = strlen(text), at = 0;
	int rc = 0;

	if (len == 0 || len > ROUTE_REGEX_TEXT_MAX)
		return err_set(err, EINVAL, "a regular expression of 1 to %d bytes expected",
			ROUTE_REGEX_TEXT_MAX);
	*code = pcre2_compile((PCRE2_SPTR)text, len, OPTIONS, &rc, &at, NULL);
	if (*code != NULL)
		return 0;
	pcre2_get_error_message(rc, why, sizeof why);
	return err_set(err, EINVAL, "no regular expression, at byte %zu: %s", at, (char *)why);
}

struct route_regex *
route_regex_new(const char *text, struct err *err)
{
	struct route_regex *r = xcalloc(1, sizeof *r);
	size_t size = 0;

	if (regex_compile(&r->code, text, err) < 0) {
		route_regex_free(&r);
		return NULL;
	}
	pcre2_pattern_info(r->code, PCRE2_INFO_SIZE, &size);
	if (size > ROUTE_REGEX_CODE_MAX) {
		err_set(err, E2BIG,
			"a regular expression that needs %zu bytes, at most %d are allowed: repeat "
			"less",
			size, ROUTE_REGEX_CODE_MAX);
		route_regex_free(&r);
	}
	return r;
}

void
route_regex_free(struct route_regex **r)
{
	struct route_regex *gone = take_ptr(r);

	if (gone == NULL)
		return;
	pcre2_code_free(gone->code);
	free(gone);
}

struct route_regex_scratch *
route_regex_scratch_new(void)
{
	struct route_regex_scratch *s = xcalloc(1, sizeof *s);

	/* Of what matched nothing is asked but whether it did. */
	s->data = pcre2_match_data_create(1, NULL);
	s->limits = pcre2_match_context_create(NULL);
	assert(s->data != NULL && s->limits != NULL); /* fails only without memory */
	pcre2_set_match_limit(s->limits, ROUTE_REGEX_STEPS_MAX);
	pcre2_set_depth_limit(s->limits, ROUTE_REGEX_DEPTH_MAX);
	pcre2_set_heap_limit(s->limits, ROUTE_REGEX_MEMORY_MAX_KB);
	return s;
}

void
route_regex_scratch_free(struct route_regex_scratch **s)
{
	struct route_regex_scratch *gone = take_ptr(s);

	if (gone == NULL)
		return;
	pcre2_match_data_free(gone->data);
	pcre2_match_context_free(gone->limits);
	free(gone);
}

bool
route_regex_matches(
	const struct route_regex *r, struct route_regex_scratch *s, const char *text, size_t len)
{
	/* Negative: no match, or a bound was reached. */
	return r != NULL &&
		pcre2_match(r->code, (PCRE2_SPTR)text, len, 0, 0, s->data, s->limits) >= 0;
}
