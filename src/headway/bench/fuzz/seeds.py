"""Valid input of every kind, which uses most features; the fuzz mutates it."""

from typing import Any

import yaml

MANIFEST, CLUSTER_ONLY = yaml.safe_load_all(r"""
apiVersion: headway.dev/v1alpha1
kind: TrainingJob
metadata: {name: mine}
spec:
  metric: {name: accuracy, direction: maximize}
  totalSteps: 3000
  priority: 2
  checkpoint: {mode: sigterm, graceSeconds: 30s}
  backoffLimit: 2
  reports: {pattern: 'acc=(?P<value>\S+) at (?P<step>\d+)'}
  elasticReplicas: 2
  activeDeadlineSeconds: 2h
  runAs: nobody
  capabilities: [SYS_NICE]
  tasks:
  - name: ps
    replicas: 1
    command: [python, ps.py]
  - name: worker
    replicas: 2
    minReplicas: 1
    maxReplicas: 4
    elastic: independent
    command: [python, train.py]
    image: my/training:3
    env: {A: '1'}
    workingDir: sub
    resources:
      requests: {cpu: 500m, memory: 512Mi}
      limits: {cpu: 1, memory: 1Gi}
    tolerations:
    - {key: k, operator: Exists}
---
apiVersion: headway.dev/v1alpha1
kind: TrainingJob
metadata: {name: mine}
spec:
  metric: {name: accuracy, direction: maximize}
  totalSteps: 3000
  priority: 2
  checkpoint: {mode: sigterm, graceSeconds: 30s}
  backoffLimit: 2
  reports: {pattern: 'acc=(?P<value>\S+) at (?P<step>\d+)'}
  activeDeadlineSeconds: 2h
  runAs: nobody
  capabilities: [SYS_NICE]
  tasks:
  - name: main
    image: x
    nodeSelector: {a: b}
    mounts:
    - {path: /data, claim: c}
    envFrom:
    - secretRef: {name: s}
    podTemplate:
      metadata:
        labels: {a: b}
      spec:
        containers: []
  ttlSecondsAfterFinished: 1h
""")
WORKLOADS: tuple[Any, ...] = (
    *yaml.safe_load_all("""
apiVersion: headway.dev/v1alpha1
kind: Workload
nodes:
- {name: a, cpu: 1, memory: 4Gi}
- {name: b, cpu: 2, count: 2}
jobs:
- {name: j1, at: 0, model: vae-torch}
- name: j2
  at: 40s
  profile:
    work: 90
    demand: 0.5
    steps: 900
    curve: {shape: inverse, at20: 0.65, noise: 0.02}
  knows: {after: 20%}
- name: mine
  spec:
    tasks:
    - command: ['true']
  profile: {work: 60, memory: 1Gi, save_s: 2}
failures:
- {at: 30, node: a, lasts: 20}
- {at: 50, job: j1}
sizes: {wrong: 2}
seed: 3
---
apiVersion: headway.dev/v1alpha1
kind: Workload
pool: specon
nodes: 3
contention: 0.1
models:
  own: {work: 5, demand: 1.5}
costs: {save_s: 1, restore_s: 2}
arrivals:
  uniform: [0, 300]
  jobs: 5
  models: any
  knows: [all, nothing]
---
apiVersion: headway.dev/v1alpha1
kind: Workload
nodes:
- name: node
  cpu: 16
  gpu: 4
  count: 2
  rack: r1
  speed: 1.5
  foreign:
    between: [0.1, 0.4]
    every_s: 30
arrivals:
  load: 0.9
  jobs: 4
  checkpoint: sdk
  profile:
    speed:
    - {kind: sync, compute: 2, fixed: 0.1, size: 100Mi, bandwidth: 1Gi, penalty: 2}
    steps: [100, 200]
    vary: 0.2
    demand: [1]
    tasks:
    - name: ps
      replicas: [1]
      cpu: [1]
    - name: worker
      replicas: [1, 2]
      min: [1]
      max: [2]
      max_times: 2
      cpu: [1]
      memory: [1Gi]
---
apiVersion: headway.dev/v1alpha1
kind: Workload
nodes:
- cpu: 2
  foreign:
  - {at: 3, cpu: 1}
jobs:
- name: d
  profile:
    speed: {kind: ring, compute: 1, transfer_s: 1}
    steps: 50
  spec:
    tasks:
    - {name: worker, replicas: 2}
- name: f
  manifest: job.yaml
  profile:
    work: 5
    curve: {file: loss.csv}
"""),
    MANIFEST,
)
TRACES = [
    """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 07:00:55,600.0,8,4800.0,11cb48
""",
    """job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
c9c620ea,5810,395,inception3,314395,64,16,288
be631d51,5813,401,inception3,308959,64,4,292
""",
    """; Computer: somewhere
1 0 -1 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1
2 30 -1 50 -1 -1 -1 8 100 -1 1 1 1 -1 1 -1 -1 -1
""",
]
REPORTS = [
    '{"step": 1, "loss": 0.9}\n{"step": 2, "loss": 0.8, "total_steps": 10}\n{"loss": NaN}\n',
    '{"trouble": "no disk"}\n{"step": 3, "accuracy": 1e3}\n',
]
LOGS = (
    "Epoch 3/10\n 90/938 [=>....] - ETA: 4s - loss: 0.4321\n",
    "Train Epoch: 2 [15000/60000 (25%)]\tLoss: 2.29\n{'loss': 0.5, 'epoch': 1.25}\n",
    "  2%|#  | 60/500 [00:05<00:41, loss=0.12]\rstep 10/3000 val_loss: 3 loss = tensor(0.5)\n",
    "\x1b[1m[0/5][10/1583]\x1b[0m Loss_D: 1.1 loss -> 0.5\nacc=0.9 at 30\n[1,  2000] loss: 1.2\n",
)
