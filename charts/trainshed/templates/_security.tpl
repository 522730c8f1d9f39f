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

{{/* Containers with the security context that they leave out, as YAML. Takes (list $ CONTAINERS). */}}
{{- define "trainshed.closedContainers" -}}
{{- $root := index . 0 -}}
{{- $containers := deepCopy (index . 1) -}}
{{- range $containers -}}
{{- if not .securityContext -}}
{{- /* Their image may have to write where the release's does not. */ -}}
{{- $_ := set . "securityContext" (omit (include "trainshed.securityContext" $root | fromYaml) "readOnlyRootFilesystem") -}}
{{- end -}}
{{- end -}}
{{- toYaml $containers -}}
{{- end -}}
