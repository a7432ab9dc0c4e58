{{- define "tfe.labels" -}}
app.kubernetes.io/name: tfe
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}
{{- define "tfe.select" -}}
app.kubernetes.io/name: tfe
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{/* The agent into the user's image; "/tfe" there has bin and share/tfe. */}}
{{- define "tfe.init" -}}
- name: copy-agent
  image: {{ .Values.image.agent }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [sh, -c, "cp -r /opt/tfe/. /tfe/"]
  volumeMounts: [{name: tfe, mountPath: /tfe}]
  securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, runAsUser: 65534, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
{{- end }}
{{- define "tfe.agentEnv" -}}
- {name: TFE_RDZV_ENDPOINT, value: "{{ .Release.Name }}-server:5556"}
- {name: TFE_TOKEN_FILE, value: /run/tfe/token}
- {name: TFE_NO_PERSIST, value: "true"}
- {name: TFE_NODE_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: TFE_ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
{{- end }}
{{- define "tfe.agentVolumes" -}}
- {name: tfe, emptyDir: {sizeLimit: 256Mi}}
- {name: token, secret: {secretName: {{ .Release.Name }}-token, defaultMode: 0440, items: [{key: agent.token, path: token}]}}
{{- end }}
{{- define "tfe.placement" -}}
tolerations: {{ toJson .Values.tolerations }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {app.kubernetes.io/instance: {{ .Release.Name }}, tfe-role: worker}}
{{- end }}
