#include "hub/identity/share_private.h"

#include <errno.h>
#include <string.h>

#include "base/core/log.h"

static void
use_ca(struct share *s, const char *pem, const char *key)
{
	char *old_pem = s->ca_pem, *old_key = s->ca_key;

	s->ca_pem = xstrdup(pem);
	s->ca_key = xstrdup(key);
	free(old_pem);
	free(old_key);
}

/* An exchange of the CA that was interrupted between the two files leaves files that do not match:
 * then the CA of the Secret is used. */
bool
share_load_ca(struct share *s)
{
	struct err err = {0};

	if (certs_ca_load(s->config.data_dir, &s->ca_pem, &s->ca_key, NULL) < 0)
		return false;
	if (pki_pair_check(s->ca_pem, s->ca_key, &err) == 0)
		return true;
	log_warn("hub", "the CA under %s is not used, that of the Secret " SHARE_CA " is: %s",
		s->config.data_dir, err.text);
	free(take_ptr(&s->ca_pem));
	free(take_ptr(&s->ca_key));
	return false;
}

static void
take_ca(struct share *s)
{
	struct doc *d = &s->docs[SHARE_DOC_CA];
	const char *pem = secret_value(d->secret, 0), *key = secret_value(d->secret, 1);
	struct err err = {0};

	if ((s->settled || s->had_ca) && s->ca_pem != NULL && strcmp(pem, s->ca_pem) == 0 &&
		strcmp(key, s->ca_key) == 0) {
		d->problem[0] = '\0';
		share_settle(s);
		return;
	}
	/* Whom another CA cuts off is known only after the lists have been read; share_ca_again is
	 * called then. */
	if (s->had_ca && !s->synced) {
		share_settle(s);
		return;
	}
	if (pki_pair_check(pem, key, &err) < 0 ||
		(!s->settled && certs_ca_save(s->config.data_dir, pem, key, &err) < 0)) {
		share_complain(d,
			"the CA in the Secret " SHARE_CA " (ca.pem, ca.key) cannot be used", &err);
		if (s->had_ca)
			share_settle(s);
		return;
	}
	if (s->settled &&
		(s->config.ca_allowed(s->config.arg, pem, &err) < 0 ||
			s->config.ca_changed(s->config.arg, pem, key, &err) < 0)) {
		share_complain(d, "the CA in the Secret " SHARE_CA " is not used", &err);
		return;
	}
	d->problem[0] = '\0';
	log_info("hub", "using the CA of the Secret %s", SHARE_CA);
	use_ca(s, pem, key);
	share_settle(s);
}

static void
on_ca_written(void *arg, int rc, const char *why)
{
	struct doc *d = arg;
	struct err err = {0};

	if (rc == 0) {
		kube_wait_reset(&d->wait);
		d->written++;
		take_ca(d->share);
	} else if (rc != -ESTALE) {
		d->failed++;
		err_set(&err, rc, "%s", why);
		share_complain(d, "the CA cannot be put into the Secret " SHARE_CA, &err);
		timer_start(d->retry, kube_wait_ms(&d->wait, NULL), 0);
		if (d->share->had_ca)
			share_settle(d->share);
	}
}

bool
share_had_ca(const struct share *s)
{
	return s->had_ca;
}

const char *
share_ca_again(struct share *s)
{
	const struct doc *d = &s->docs[SHARE_DOC_CA];

	if (d->secret != NULL && secret_known(d->secret) && secret_exists(d->secret))
		take_ca(s);
	return d->problem;
}

void
share_on_ca(void *arg)
{
	struct doc *d = arg;
	struct share *s = d->share;
	const char *values[SECRET_KEYS_MAX];
	struct err err = {0};

	if (!secret_known(d->secret)) {
		if (s->had_ca)
			share_settle(s);
	} else if (secret_exists(d->secret)) {
		take_ca(s);
	} else if (!secret_writing(d->secret) && !timer_active(d->retry)) {
		/* Created once: the same one is offered again until the Secret has a CA. */
		if (s->ca_pem == NULL && certs_ca_new(&s->ca_pem, &s->ca_key, &err) < 0) {
			share_complain(d, "no CA", &err);
			return;
		}
		values[0] = s->ca_pem;
		values[1] = s->ca_key;
		secret_write(d->secret, values, on_ca_written, d);
	}
}
