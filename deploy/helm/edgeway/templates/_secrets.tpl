{{/* Which key of the agent's configuration each of agent.secrets stands for; `volume` is in its names: /run/secrets/edgeway-join. */}}
{{- define "edgeway.agent-secrets" -}}
token: {volume: join, part: hub, key: token}
proxy: {volume: proxy, part: hub, key: proxy}
tracingHeaders: {volume: tracing, part: tracing, key: headers}
{{- end -}}

{{/* (list GIVEN VOLUME): the name of its Secret, "" for none. */}}
{{- define "edgeway.secret-name" -}}
{{- $given := index . 0 -}}
{{- $given.name | default (ternary (printf "edgeway-%s" (index . 1)) "" (ne $given.value "")) -}}
{{- end -}}

{{/* (list POD VOLUME SECRET FOLDER): mounts a Secret into its container. */}}
{{- define "edgeway.mount" -}}
{{- $pod := index . 0 -}}
{{- $container := first $pod.containers -}}
{{- $secret := dict "secretName" (index . 2) "defaultMode" 256 -}}
{{- $mount := dict "name" (index . 1) "mountPath" (index . 3) "readOnly" true -}}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" (index . 1) "secret" $secret)) -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) -}}
{{- end -}}

{{/* (list POD SECRETS): mounts those of agent.secrets, in the place of the manifest's own. */}}
{{- define "edgeway.mount-secrets" -}}
{{- $pod := index . 0 -}}
{{- $secrets := index . 1 -}}
{{- $container := first $pod.containers -}}
{{- range $list := list (list $pod "volumes") (list $container "volumeMounts") -}}
{{- $kept := list -}}
{{- range get (index $list 0) (index $list 1) -}}{{- if ne .name "join" -}}{{- $kept = append $kept . -}}{{- end -}}{{- end -}}
{{- $_ := set (index $list 0) (index $list 1) $kept -}}
{{- end -}}
{{- range $what, $row := include "edgeway.agent-secrets" . | fromYaml -}}
{{- $name := include "edgeway.secret-name" (list (get $secrets $what) $row.volume) -}}
{{- if $name -}}{{- include "edgeway.mount" (list $pod $row.volume $name (printf "/run/secrets/edgeway-%s" $row.volume)) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* (list CONFIG SECRETS): names their files in the agent's configuration. */}}
{{- define "edgeway.name-secrets" -}}
{{- $config := index . 0 -}}
{{- $secrets := index . 1 -}}
{{- range $what, $row := include "edgeway.agent-secrets" . | fromYaml -}}
{{- $given := get $secrets $what -}}
{{- if include "edgeway.secret-name" (list $given $row.volume) -}}
{{- $path := printf "/run/secrets/edgeway-%s/%s" $row.volume $given.key | trimSuffix "/" -}}
{{- $_ := set $config $row.part (merge (get $config $row.part | default dict) (dict (printf "%sFile" $row.key) $path)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of $: a secret where many may read it, in a ConfigMap or a pod's variables, is refused. Of a proxy only the password is one. */}}
{{- define "edgeway.refuse-secrets" -}}
{{- $values := .Values -}}
{{- range $what, $row := include "edgeway.agent-secrets" . | fromYaml -}}
{{- $variable := printf "EDGEWAY_%s_%s" $row.part $row.key | upper -}}
{{- $said := dict (printf "agent.config.%s.%s" $row.part $row.key) (get (get $values.agent.config $row.part | default dict) $row.key) -}}
{{- range $values.agent.env -}}{{- if eq .name $variable -}}{{- $_ := set $said (printf "agent.env: %s" $variable) .value -}}{{- end -}}{{- end -}}
{{- range $where, $value := $said -}}
{{- if and $value (or (ne $what "proxy") (contains "@" (toString $value))) -}}
{{- fail (printf "%s: many may read this: give agent.secrets.%s, by the name of a Secret or as a value that becomes one" $where $what) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if get (get $values.hub.config "tracing" | default dict) "headers" -}}
{{- fail "hub.config.tracing.headers: many may read this: mount a Secret with hub.secretMounts, and name its file in tracing.headersFile" -}}
{{- end -}}
{{- range $values.hub.env -}}
{{- if and (eq .name "EDGEWAY_TRACING_HEADERS") .value -}}
{{- fail "hub.env: EDGEWAY_TRACING_HEADERS: many may read this: mount a Secret with hub.secretMounts, and name its file in tracing.headersFile" -}}
{{- end -}}
{{- end -}}
{{- range $part := list "hub" "agent" -}}
{{- if contains " PRIVATE KEY-----" (toJson (pick (get $values $part) "config" "env" "podAnnotations")) -}}
{{- fail (printf "%s: many may read a key that is written here: mount a Secret with %s.secretMounts, and name its file" $part $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
