#include "meta/client/staleness.h"

#include "base/core/log.h"

enum {
	LOOK_MS = 6 * 1000,
	NOTE_S = 10 * 60,
	WEEK_S = 7 * 24 * 3600,
};

struct staleness {
	struct staleness_config config;
	struct timer *look;
	bool in_step; /* at the last check */
	bool known, anchored;
	int64_t stored_s; /* wall clock, from the database; 0: it has none */
	int64_t last_s; /* wall clock when last in step */
	/* mono_ms() at that time, once anchored; may be negative: before this process */
	int64_t last_ms;
	int64_t start_ms;
	int64_t said_s; /* the age last logged */
};

static int64_t
now_s(void)
{
	return (int64_t)(wall_ms() / 1000);
}

/* Converts the note's time to the monotonic clock, once the wall clock can be right. */
static void
staleness_anchor(struct staleness *a)
{
	int64_t passed_s = now_s() - a->last_s;

	if (a->anchored || !a->known || passed_s < 0)
		return;
	a->last_ms = (int64_t)mono_ms() - passed_s * 1000;
	a->anchored = true;
}

int64_t
staleness_seconds(struct staleness *a)
{
	if (a->config.in_step(a->config.arg))
		return 0;
	if (!a->known)
		return -1;
	staleness_anchor(a);
	return ((int64_t)mono_ms() - (a->anchored ? a->last_ms : a->start_ms)) / 1000;
}

/* The next age to be logged. */
static int64_t
next_said(int64_t said_s)
{
	static const int64_t steps[] = {10 * 60, 3600, 24 * 3600, WEEK_S};

	for (unsigned i = 0; i < ARRAY_LEN(steps); i++) {
		if (said_s < steps[i])
			return steps[i];
	}
	return (said_s / WEEK_S + 1) * WEEK_S;
}

static void
say_age(struct staleness *a)
{
	int64_t age_s = staleness_seconds(a);
	auto_buf struct buf since;

	buf_init(&since, BUF_UNLIMITED);
	if (age_s < next_said(a->said_s))
		return;
	a->said_s = age_s;
	buf_add_utc(&since, a->last_s);
	log_warn("meta",
		"not in step with the hub for long: what is served may be out of date; see the "
		"warnings of edgewayctl status age_s=%lld since=%s",
		(long long)age_s, buf_str(&since));
}

static void
staleness_note(struct staleness *a)
{
	a->stored_s = a->last_s;
	a->config.note(a->config.arg, a->last_s);
}

static void
in_step_again(struct staleness *a)
{
	if (a->said_s > 0)
		log_info("meta", "in step with the hub again after_s=%lld",
			(long long)((int64_t)mono_ms() - (a->anchored ? a->last_ms : a->start_ms)) /
				1000);
	a->said_s = 0;
}

void
staleness_look(struct staleness *a)
{
	bool was = a->in_step;

	a->in_step = a->config.in_step(a->config.arg);
	if (a->in_step && !was)
		in_step_again(a);
	if (a->in_step) {
		a->known = a->anchored = true;
		a->last_ms = (int64_t)mono_ms();
		a->last_s = now_s();
		/* also when the clock was set back */
		if (a->last_s < a->stored_s || a->last_s >= a->stored_s + NOTE_S)
			staleness_note(a);
	} else if (was) {
		staleness_note(a);
	} else {
		say_age(a);
	}
}

static void
on_look(void *arg)
{
	staleness_look(arg);
}

struct staleness *
staleness_new(const struct staleness_config *config)
{
	struct staleness *a = xcalloc(1, sizeof(*a));

	a->config = *config;
	a->start_ms = (int64_t)mono_ms();
	a->known = config->stored_s > 0;
	a->stored_s = a->last_s = config->stored_s;
	staleness_anchor(a);
	a->look = timer_new(config->loop, on_look, a);
	timer_start(a->look, LOOK_MS, LOOK_MS);
	say_age(a);
	return a;
}

void
staleness_free(struct staleness **out)
{
	struct staleness *a = *out;

	if (a == NULL)
		return;
	staleness_look(a);
	if (a->in_step && a->last_s != a->stored_s)
		staleness_note(a);
	timer_free(&a->look);
	free(a);
	*out = NULL;
}

void
staleness_metrics(struct staleness *a, struct metrics *out)
{
	int64_t age_s = staleness_seconds(a);

	if (age_s >= 0)
		metric_gauge(out, "edgeway_meta_data_age_seconds",
			"How old what is served may be: since when this node is not in step with "
			"its "
			"hub; 0 in step, absent where it never was.",
			NULL, (double)age_s);
}

void
staleness_state(struct staleness *a, struct buf *out)
{
	int64_t age_s = staleness_seconds(a);

	if (age_s < 0) {
		buf_adds(out, "{\"age_s\":null,\"as_of\":\"\"}");
		return;
	}
	buf_printf(out, "{\"age_s\":%lld,\"as_of\":\"", (long long)age_s);
	buf_add_utc(out, a->in_step ? now_s() : a->last_s);
	buf_printf(out, "\",\"warning\":\"%s\"}",
		age_s >= next_said(0)
			? "what is served may be out of date: long not in step with the hub"
			: "");
}
