{{- define "holdfast.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* Several gateways over one PostgreSQL: each pod is reached by the others under a name of its own. */}}
{{- define "holdfast.shared" -}}
{{- if eq (dig "store" "kind" "sqlite" .Values.config) "postgres" }}yes{{ end -}}
{{- end }}

{{- define "holdfast.nodes" -}}
{{ include "holdfast.name" . }}-nodes
{{- end }}

{{- define "holdfast.config" -}}
{{- $own := dict "listen" "0.0.0.0:8080" -}}
{{- if include "holdfast.shared" . -}}
{{- $advertise := printf "POD_NAME.%s.%s.svc:8090" (include "holdfast.nodes" .) .Release.Namespace -}}
{{- $_ := set $own "cluster" (dict "node" "POD_NAME" "listen" "0.0.0.0:8090" "advertise" $advertise) -}}
{{- end -}}
{{ merge $own .Values.config | toPrettyJson }}
{{- end }}
