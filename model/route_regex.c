#include "model/route_regex.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
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
	uint32_t steps; /* of one comparison */
};

struct route_regex_scratch {
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

/* The text decides nothing but what matches: no UTF mode, no (*UTF), no callouts' effects. */
enum {
	OPTIONS = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UTF |
		PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE |
		PCRE2_NO_AUTO_POSSESS
};

/*
 * PCRE2 counts where it may have to come back to, and neither the bytes that a repetition without a
 * way back runs over, nor those of a literal. So what has no way back is refused, as RE2 does, and
 * each step is charged with the bytes that one can look at: those of the compiled form and of
 * repetitions of a fixed number. What is left is compared in a time bounded by
 * ROUTE_REGEX_WORK_MAX, whatever the text.
 */

/* After "(": a group, with flags or a name, but no look-around, condition, recursion or verb. */
static bool
regex_is_plain_group(const char *at)
{
	if (*at != '?')
		return *at != '*';
	at++;
	if (at[0] == 'P' && at[1] == '<')
		return true;
	if (at[0] == '<')
		return at[1] != '=' && at[1] != '!';
	at += strspn(at, "imsU-");
	return *at == ':' || *at == ')';
}

/* "{3,5}": its end, and the fixed number; else NULL. */
static const char *
regex_read_repeat(const char *at, size_t *fixed)
{
	size_t digits = strspn(at + 1, "0123456789");
	const char *end = at + 1 + digits;

	if (*at != '{' || digits == 0)
		return NULL;
	if (*end == ',')
		end += 1 + strspn(end + 1, "0123456789");
	if (*end != '}')
		return NULL;
	*fixed += (size_t)strtoul(at + 1, NULL, 10);
	return end;
}

/* Escapes of RE2, which consume nothing but themselves; NULL: others. */
static const char *
regex_skip_escape(const char *at)
{
	return at[1] != '\0' && strchr("123456789cEgkGKQRX", at[1]) == NULL ? at + 2 : NULL;
}

/* "[:alpha:]" within a class: its last byte; else at. */
static const char *
regex_skip_posix(const char *at)
{
	const char *end = at + 2 + strspn(at + 2, "^abcdefghijklmnopqrstuvwxyz");

	return at[1] == ':' && end[0] == ':' && end[1] == ']' ? end + 1 : at;
}

/* The byte after a class that begins at "["; NULL: there is an escape that is refused. */
static const char *
regex_skip_class(const char *at)
{
	at += at[1] == '^' ? 2 : 1;
	for (at += *at == ']'; at != NULL && *at != '\0' && *at != ']';)
		at = *at == '\\' ? regex_skip_escape(at)
				 : (*at == '[' ? regex_skip_posix(at) : at) + 1;
	return at != NULL && *at == ']' ? at + 1 : at;
}

/* What is refused, or NULL. *fixed grows by the repetitions of a fixed number. */
static const char *
regex_find_refused(const char *at, size_t *fixed)
{
	bool quantified = false;

	while (at != NULL && *at != '\0') {
		const char *end = regex_read_repeat(at, fixed);

		if (*at == '+' && quantified)
			return "a possessive repetition";
		if (*at == '(' && !regex_is_plain_group(at + 1))
			return "a group that is neither plain nor of flags or a name";
		quantified = end != NULL || *at == '*' || *at == '+' || *at == '?';
		if (end != NULL)
			at = end + 1;
		else if (*at == '[')
			at = regex_skip_class(at);
		else
			at = *at == '\\' ? regex_skip_escape(at) : at + 1;
	}
	return at == NULL ? "a reference, or another escape that RE2 does not know," : NULL;
}

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
	size_t size = 0, fixed = 0;
	const char *refused = regex_find_refused(text, &fixed);

	if (refused != NULL)
		err_set(err, EINVAL, "%s is not supported in a regular expression", refused);
	if (refused != NULL || regex_compile(&r->code, text, err) < 0) {
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
		return NULL;
	}
	r->steps =
		(uint32_t)MIN((size_t)ROUTE_REGEX_STEPS_MAX, ROUTE_REGEX_WORK_MAX / (size + fixed));
	return r;
}

void
route_regex_share(struct route_regex *r, size_t n)
{
	if (n > ROUTE_REGEX_FULL)
		r->steps = (uint32_t)(r->steps * (size_t)ROUTE_REGEX_FULL / n);
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
	if (r == NULL)
		return false;
	pcre2_set_match_limit(s->limits, r->steps);
	/* Negative: no match, or a bound was reached. */
	return pcre2_match(r->code, (PCRE2_SPTR)text, len, 0, 0, s->data, s->limits) >= 0;
}
