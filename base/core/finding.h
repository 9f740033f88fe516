/*
 * The severity classes of what operators see (status, doctor, Events, metrics, the web page), so
 * that every part classifies alike:
 *
 *	fault		something does not work: somebody has to act
 *	warning		it works, but not as configured, or not for long
 *	information	as intended; shown where it explains something else
 *
 * Only faults make doctor's verdict bad; information never becomes an Event of type Warning nor a
 * warning in status.
 */
#ifndef EDGEWAY_BASE_CORE_FINDING_H
#define EDGEWAY_BASE_CORE_FINDING_H

enum finding_class { FINDING_FAULT, FINDING_WARNING, FINDING_INFO, FINDING_CLASSES };

/* The name of a class in JSON and in metric labels. */
static inline const char *
finding_word(enum finding_class of)
{
	static const char *const words[FINDING_CLASSES] = {
		[FINDING_FAULT] = "fault",
		[FINDING_WARNING] = "warning",
		[FINDING_INFO] = "information",
	};

	return words[of];
}

#endif
