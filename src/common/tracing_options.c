#include "src/common/tracing_options.h"

#include <string.h>

enum { CA_MOST = 1 << 20 };

#define complain(values, key, err, ...) opt_complain(values, key, NULL, err, __VA_ARGS__)

/* Returns 0 to 1; negative: not a valid share. */
static double
tracing_options_share(const char *text)
{
	char *end;
	double v = strtod(text, &end);

	/* Digits and a point: no signs, no infinities. */
	if (text[0] == '\0' || *end != '\0' || text[strspn(text, "0123456789.")] != '\0' || v > 1)
		return -1;
	return v;
}

int
tracing_keys_check(const void *values, const struct tracing_keys *k, struct err *err)
{
	struct err why = {0};

	if (tracing_options_share(k->sample) < 0)
		return complain(values, "tracing.sample", err,
			"\"%.40s\" is no share: expected a number from 0 to 1, such as 0.01",
			k->sample);
	if (k->endpoint[0] == '\0')
		return 0;
	if (tracing_check(k->endpoint, (const char *const[]){NULL}, &why) < 0)
		return complain(values, "tracing.endpoint", err, "%s", why.text);
	if (tracing_check(k->endpoint, (const char *const *)k->headers, &why) < 0)
		return complain(values, "tracing.headers", err, "%s", why.text);
	return 0;
}

int
tracing_keys_open(struct tracing **t, const struct tracing_config *config,
	const struct tracing_keys *k, struct err *err)
{
	struct tracing_config whole = *config;
	auto_free char *ca = NULL;
	int rc = 0;

	if (k->endpoint[0] == '\0')
		return 0;
	if (k->ca[0] != '\0')
		rc = file_read(k->ca, CA_MOST, &ca, NULL);
	if (rc < 0)
		return err_set(err, rc, "tracing.ca: cannot read %s: %s", k->ca, strerror(-rc));
	whole.endpoint = k->endpoint;
	whole.headers = (const char *const *)k->headers;
	whole.ca_pem = ca;
	whole.delay_ms = k->delay_ms;
	rc = tracing_new(t, &whole, err);
	return rc < 0 ? err_wrap(err, rc, "tracing") : 0;
}

void
tracing_keys_use(const struct tracing_keys *k, struct span_source *to)
{
	to->below = (uint64_t)(tracing_options_share(k->sample) * 4294967296.0);
	to->per_s = (uint32_t)k->limit;
}
