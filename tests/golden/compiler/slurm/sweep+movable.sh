#!/bin/bash
#SBATCH --account=acme
#SBATCH --array=0-49%4
#SBATCH --comment=windlass.dev/tenant=acme,windlass.dev/project=nlp,windlass.dev/env=prod,windlass.dev/component=sweep,windlass.dev/type=sweep,windlass.dev/type-version=1.0.0,windlass.dev/tier=standard,windlass.dev/profile=h100-80g
#SBATCH --cpus-per-task=12
#SBATCH --export=NIL
#SBATCH --gres=gpu:h100-80g:1
#SBATCH --job-name=nlp.prod.sweep
#SBATCH --mem=128G
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=h100-80g
#SBATCH --qos=standard
#SBATCH --requeue
set -- "$(command -v srun)" '--export=ALL' '--kill-on-bad-exit=1' '--cpus-per-task=12' \
  /bin/sh -c 'export WINDLASS_WORKER=${SLURM_ARRAY_TASK_ID:-$SLURM_PROCID} WINDLASS_NODE=$SLURMD_NODENAME; export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=0 LOCAL_WORLD_SIZE=1; exec "$@"' sh \
  'python' '-u' 'it'\''s main.py'
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export MASTER_ADDR MASTER_PORT
export WINDLASS_COMPONENT='nlp/prod/sweep'
export WINDLASS_IMAGE='ghcr.io/acme/work:v3'
exec "$@"
