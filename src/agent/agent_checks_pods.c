#include "src/agent/agent_checks.h"

#include "src/common/ctl_answer.h"

void
agent_check_pods(struct findings *f, const struct tree_node *meta)
{
	const char *trouble = ctl_text(tree_get(meta, "pods"), "trouble");

	if (*trouble == '\0')
		return;
	findings_add(f, "pods by address", VERDICT_NOTE,
		"the log names address and namespace; edgeway_meta_pod_questions_... count them; "
		"call pods by their Services, or by hostnames of a headless one",
		"names and addresses of pods were asked for and not found out: %s", trouble);
	findings_name(f, "pods-by-address");
}
