{{- define "kuberay-operator.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kuberay-operator.labels" -}}
{{ include "kuberay-operator.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* The one namespace to watch; nothing for all. */ -}}
{{- define "kuberay-operator.namespace" -}}
{{- if gt (len .Values.watchNamespace) 1 -}}
{{- fail "watchNamespace: the stand-in for KubeRay watches one namespace or all" -}}
{{- end -}}
{{- if .Values.watchNamespace -}}
{{- first .Values.watchNamespace -}}
{{- else if .Values.singleNamespaceInstall -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end -}}
