/*
 * The classes of what is said to an operator (status, doctor, Events, metrics, the page), so that
 * every part draws the line in the same place:
 *
 *	fault		something does not work: somebody has to act
 *	warning		it works, but not as configured, or not for long
 *	information	as intended; said where it explains something else
 *
 * Only faults make a doctor's verdict bad; information is no Event of type Warning and no warning
 * of status.
 */
#ifndef EDGEWAY_BASE_CORE_FINDING_H
#define EDGEWAY_BASE_CORE_FINDING_H

enum finding_class { FINDING_FAULT, FINDING_WARNING, FINDING_INFO, FINDING_CLASSES };

/* The word of a class in JSON and in labels of metrics. */
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
