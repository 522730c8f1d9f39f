{{/* What Pod Security "restricted" asks of every Pod, and further good practice. */}}

{{- define "trainshed.podSecurityContext" -}}
runAsNonRoot: true
{{- /* OpenShift chooses what is null. */}}
{{- range $field := list "runAsUser" "runAsGroup" "fsGroup" }}
{{- with index $.Values.podSecurityContext $field }}
{{ $field }}: {{ int64 . }}
{{- end }}
{{- end }}
# A volume of many files is not gone through at each start.
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

{{/* A security context with the fields that it leaves out, as YAML. Takes (list CONTEXT DEFAULTS). */}}
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
Containers with the security context that they leave out, or with FILL its fields, as YAML. Takes (list $ CONTAINERS)
or (list $ CONTAINERS FILL).
*/}}
{{- define "trainshed.closedContainers" -}}
{{- $root := index . 0 -}}
{{- $containers := deepCopy (index . 1) -}}
{{- $fill := has true . -}}
{{- range $containers -}}
{{- if or $fill (not .securityContext) -}}
{{- /* Their image may have to write where the release's does not. */ -}}
{{- $defaults := omit (include "trainshed.securityContext" $root | fromYaml) "readOnlyRootFilesystem" -}}
{{- $_ := set . "securityContext" (include "trainshed.filledSecurity" (list .securityContext $defaults) | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- toYaml $containers -}}
{{- end -}}
