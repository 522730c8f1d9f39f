{{/* Security contexts: Pod Security "restricted" and more. */}}

{{- define "trainshed.podSecurityContext" -}}
runAsNonRoot: true
{{- /* OpenShift sets the fields that are null. */}}
{{- range $field := list "runAsUser" "runAsGroup" "fsGroup" }}
{{- with index $.Values.podSecurityContext $field }}
{{ $field }}: {{ int64 . }}
{{- end }}
{{- end }}
# Does not change the owner of all files of a volume at each start.
fsGroupChangePolicy: OnRootMismatch
{{- with .Values.podSecurityContext.supplementalGroups }}
supplementalGroups: {{ toJson . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "trainshed.securityContext" -}}
runAsNonRoot: true
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* A security context with defaults for missing fields, as YAML. Takes (list CONTEXT DEFAULTS). */}}
{{- define "trainshed.filledSecurity" -}}
{{- $own := default dict (index . 0) -}}
{{- range $field, $value := index . 1 -}}
{{- if kindIs "invalid" (index $own $field) -}}
{{- $_ := set $own $field $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $own -}}
{{- end -}}

{{/*
Containers with a default security context, or with FILL defaults for its fields, as YAML. Takes (list $ CONTAINERS)
or (list $ CONTAINERS FILL).
*/}}
{{- define "trainshed.closedContainers" -}}
{{- $root := index . 0 -}}
{{- $containers := deepCopy (index . 1) -}}
{{- $fill := has true . -}}
{{- range $containers -}}
{{- if or $fill (not .securityContext) -}}
{{- /* Images of users may need a writable root file system. */ -}}
{{- $defaults := omit (include "trainshed.securityContext" $root | fromYaml) "readOnlyRootFilesystem" -}}
{{- $_ := set . "securityContext" (include "trainshed.filledSecurity" (list .securityContext $defaults) | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- toYaml $containers -}}
{{- end -}}
