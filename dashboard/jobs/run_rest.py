"""“Run the other 54”: a new job with the variants that a stopped job did not simulate."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from clients import rate_limits
from clients.errors import FormAlreadySent, InvalidFormToken
from clients.members import Role
from dashboard.access import AccountAccess, account_page
from dashboard.jobs import job_form
from dashboard.jobs.run_again import GONE
from jobs.errors import JobsError, NotFound
from jobs.models import Job
from jobs.results import queries
from jobs.submission import remaining
from jobs.submission.remaining import NotSeparable
from simservice.api.errors import ApiError
from simservice.api.exception_handler import as_api_error

ALREADY_SUBMITTED = "The remaining variants were already submitted. Their job is listed under Results."


@account_page(post=Role.MEMBER, get=False)
def run_rest(request: HttpRequest, access: AccountAccess, job_id: int) -> HttpResponse:
    """Submit the variants that a job did not simulate, and show the new job."""
    job = get_object_or_404(Job.objects.select_related("client"), account=access.account, pk=job_id)
    try:
        new = _submit(request, access, job)
    except FormAlreadySent:
        messages.info(request, ALREADY_SUBMITTED)
        return redirect("jobs", access.account.name)
    except InvalidFormToken:
        messages.error(request, job_form.OLD_FORM)
    except NotFound:
        messages.error(request, GONE)
    except NotSeparable as error:
        messages.error(request, str(error))
    except (ApiError, JobsError) as error:
        messages.error(request, job_form.message_of(as_api_error(error)))
    else:
        messages.success(request, "Job submitted.")
        return redirect("job", access.account.name, new.pk)
    return redirect("job", access.account.name, job_id)


def _submit(request: HttpRequest, access: AccountAccess, job: Job) -> Job:
    """Submit the remaining variants. Raises what `submit_once` and `remaining` raise, NotFound or an ApiError."""
    rate_limits.spend(request, rate_limits.submission_limit(access.account))
    submission = remaining.submission_of(job, queries.profile_of(access.account, str(job.pk)))
    job.client.account = access.account
    return job_form.submit_once(access, submission, client=job.client, form=request.POST.get("form", "")).job
