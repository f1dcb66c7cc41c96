"""Add shards. The code of the previous version keeps working: all new columns have defaults in the database."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0017_autovacuum'),
    ]

    operations = [
        migrations.CreateModel(
            name='Shard',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveSmallIntegerField()),
                ('text', models.TextField()),
                ('profilesets', models.PositiveIntegerField()),
                ('full_baseline', models.BooleanField(default=False)),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('stopped', 'Stopped'), ('failed', 'Failed')], default='waiting', max_length=7)),
                ('try_number', models.PositiveSmallIntegerField(default=0)),
                ('losses', models.PositiveSmallIntegerField(default=0)),
                ('seat', models.PositiveSmallIntegerField(null=True)),
                ('worker', models.CharField(blank=True, max_length=128)),
                ('lease_expires_at', models.DateTimeField(null=True)),
                ('allowance_ms', models.PositiveBigIntegerField(default=0)),
                ('billed_ms', models.PositiveBigIntegerField(default=0)),
                ('result', models.JSONField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='ShardedStage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.PositiveSmallIntegerField()),
                ('stage', models.PositiveSmallIntegerField()),
                ('executable_sha256', models.CharField(max_length=64)),
                ('priority', models.PositiveSmallIntegerField()),
                ('slots', models.PositiveSmallIntegerField()),
                ('base_text', models.TextField()),
                ('numbers', models.CharField(max_length=100)),
                ('funded_ms', models.PositiveBigIntegerField()),
                ('allotted_ms', models.PositiveBigIntegerField(default=0)),
                ('slice_ms', models.PositiveIntegerField()),
                ('stop_reason', models.CharField(blank=True, max_length=32)),
                ('created_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='job',
            name='parallel_slots',
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name='job',
            name='slots_used',
            field=models.PositiveSmallIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='seat',
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='run',
            name='try_number',
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name='shardedstage',
            name='build',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.build'),
        ),
        migrations.AddField(
            model_name='shardedstage',
            name='job',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='sharded_stages', to='jobs.job'),
        ),
        migrations.AddField(
            model_name='shard',
            name='stage',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='shards', to='jobs.shardedstage'),
        ),
        migrations.AddConstraint(
            model_name='shardedstage',
            constraint=models.UniqueConstraint(fields=('job', 'attempt', 'stage'), name='sharded_stage_unique'),
        ),
        migrations.AddConstraint(
            model_name='shardedstage',
            constraint=models.CheckConstraint(condition=models.Q(('allotted_ms__lte', models.F('funded_ms'))), name='sharded_stage_is_funded'),
        ),
        migrations.AddConstraint(
            model_name='shard',
            constraint=models.UniqueConstraint(fields=('stage', 'number'), name='shard_unique'),
        ),
        migrations.AddConstraint(
            model_name='shard',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'running')), fields=('stage', 'seat'), name='shard_seat_unique'),
        ),
        migrations.AddConstraint(
            model_name='shard',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['waiting', 'running', 'done', 'stopped', 'failed'])), name='shard_status_known'),
        ),
        migrations.AddConstraint(
            model_name='shard',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'running'), ('allowance_ms__gt', 0), ('lease_expires_at__isnull', False), ('seat__isnull', False), models.Q(('worker', ''), _negated=True)), models.Q(models.Q(('status', 'running'), _negated=True), ('allowance_ms', 0), ('lease_expires_at', None), ('seat', None), ('worker', '')), _connector='OR'), name='shard_seated_iff_running'),
        ),
        migrations.AddConstraint(
            model_name='shard',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('billed_ms', 0), ('result', None), ('status__in', ['waiting', 'running'])), models.Q(('result__isnull', False), ('status__in', ['done', 'stopped', 'failed'])), _connector='OR'), name='shard_result_iff_ended'),
        ),
    ]
