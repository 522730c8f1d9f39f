{{/* What Pod Security "restricted" asks of every Pod, and further good practice. */}}

{{- define "trainshed.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: {{ .Values.podSecurityContext.runAsUser }}
runAsGroup: {{ .Values.podSecurityContext.runAsGroup }}
fsGroup: {{ .Values.podSecurityContext.fsGroup }}
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
